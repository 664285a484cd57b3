// Newton steps on the few free coefficients of a box program, as in machines/polish.py, which has the same steps with
// LAPACK for many; and the second derivative of its value in the weights of kernels.

#pragma once

namespace active {

constexpr double EPS = box::EPS;
// times the jitter is multiplied by 100 at most
constexpr int ATTEMPTS = 200;

// The block of some rows of K + diag(ridge), and its factor.
struct Block {
    size_t n;
    std::vector<double> A, L, x;

    Block(const double* K, size_t ld, const double* ridge, const std::vector<size_t>& rows)
        : n(rows.size()), A(n * n), L(n * n), x(n) {
        for (size_t a = 0; a < n; ++a) {
            const double* row = K + rows[a] * ld;
            for (size_t c = 0; c < n; ++c) A[a * n + c] = row[rows[c]];
            A[a * n + a] += ridge[rows[a]];
        }
    }

    // of A + added I, row after row; whether it is positive definite
    bool factorise(double added) {
        for (size_t a = 0; a < n; ++a) {
            double* row = L.data() + a * n;
            for (size_t c = 0; c < a; ++c)
                row[c] = (A[a * n + c] - dot(row, L.data() + c * n, c)) / L[c * n + c];
            const double square = A[a * n + a] + added - dot(row, row, a);
            if (stacks::strange(square) || square <= 0.0) return false;
            row[a] = std::sqrt(square);
        }
        return true;
    }

    void halve(double* v) const {
        for (size_t a = 0; a < n; ++a) v[a] = (v[a] - dot(L.data() + a * n, v, a)) / L[a * n + a];
    }

    void solve(double* v) const {
        halve(v);
        for (size_t a = n; a-- > 0;) {
            v[a] /= L[a * n + a];
            axpy(-v[a], L.data() + a * n, v, a);
        }
    }
};

inline double sum(const std::vector<double>& v) { return sums::compensated(v.data(), v.size()); }

// d and level with A d - level 1 = -slope and 1'd = missing, by the smallest jitter that makes A positive definite; false
// where that is not rounding any more
inline bool step(Block& block, const std::vector<double>& slope, double missing, std::vector<double>& d, double* level) {
    const size_t n = block.n;
    double largest = 0.0, trace = 0.0;
    for (size_t a = 0; a < n; ++a) {
        largest = std::max(largest, std::abs(block.A[a * n + a]));
        trace += std::abs(block.A[a * n + a]);
    }
    if (stacks::strange(trace)) return false;
    const bool zero = std::all_of(block.A.begin(), block.A.end(), [](double entry) { return entry == 0.0; });
    double jitter = zero ? 1.0 : double(n) * EPS * largest;
    for (int attempt = 0; !block.factorise(jitter); ++attempt) {
        jitter = 100.0 * jitter + 1e-300;
        if (jitter > 1e-7 * trace || attempt == ATTEMPTS) return false;
    }
    std::vector<double> ones(n, 1.0), plain(n);
    block.solve(ones.data());
    const double total = sum(ones);
    d.assign(n, 0.0);
    *level = 0.0;
    for (int turn = 0; turn < 3; ++turn) {  // the first solve, and refinements that correct for the jitter
        for (size_t a = 0; a < n; ++a) plain[a] = *level - slope[a] - dot(block.A.data() + a * n, d.data(), n);
        block.solve(plain.data());
        const double more = (missing - sum(d) - sum(plain)) / total;
        for (size_t a = 0; a < n; ++a) d[a] += plain[a] + more * ones[a];
        *level += more;
    }
    return true;
}

// `V_F' P V_F` for products V (k, n) of kernels with b, P the inverse of the block of the free rows F, on coefficients that
// sum to zero if there is an intercept; a multiple of the identity is added, and increased until there is a factor
inline bool curvature(const double* K, const box::Machine& m, const double* b, const double* V, size_t k, bool fit_intercept,
                      size_t most, double* out) {
    std::vector<size_t> rows;
    for (size_t i = 0; i < m.n; ++i)
        if (b[i] > m.lo[i] && b[i] < m.hi[i] && (b[i] != 0.0 || m.kink == 0.0)) rows.push_back(i);
    const size_t n = rows.size();
    if (n > most) return false;
    std::fill(out, out + k * k, 0.0);
    if (n <= size_t(fit_intercept)) return true;
    Block block(K, m.n, m.ridge, rows);
    double mean = 0.0, size = 0.0;
    for (size_t a = 0; a < n; ++a) {
        mean += block.A[a * n + a] / double(n);
        size += std::abs(block.A[a * n + a]) / double(n);
    }
    // a kernel of zeros has no scale for a multiple of the identity
    if (mean <= 0.0) return true;
    double added = 1e-10 * std::max(size, 1e-100);
    for (int attempt = 0; !block.factorise(added); ++attempt) {
        if (attempt == ATTEMPTS) return false;
        added = std::max(100.0 * added, 1e-100);
    }
    std::vector<double> half((k + 1) * n, 1.0);
    for (size_t j = 0; j <= k; ++j) {
        double* own = half.data() + j * n;
        for (size_t a = 0; a < n && j < k; ++a) own[a] = V[j * m.n + rows[a]];
        block.halve(own);
    }
    const double* ones = half.data() + k * n;
    const double total = dot(ones, ones, n);
    std::vector<double> cross(k, 0.0);
    for (size_t j = 0; j < k; ++j)
        if (fit_intercept) cross[j] = dot(half.data() + j * n, ones, n);
    for (size_t i = 0; i < k; ++i)
        for (size_t j = 0; j <= i; ++j)
            out[i * k + j] = out[j * k + i] = dot(half.data() + i * n, half.data() + j * n, n) - cross[i] * cross[j] / total;
    return true;
}

struct Report {
    int64_t systems = 0;
    bool solved = false;
    bool left = false;  // to LAPACK: more rows are free than `most`, or the block is not positive definite
};

// The active set method from b with the gradient g; b and g change. Systems cost the cube of their rows: `first` for the
// first one at most, and `all` together.
inline Report solve(const double* K, const box::Machine& m, double total, double* b, double* g, double first, double all,
                    int64_t most_systems, size_t most) {
    const size_t n = m.n;
    const bool kinked = m.kink > 0.0;
    std::vector<double> low(m.lo, m.lo + n), high(m.hi, m.hi + n), side(n, 0.0), change(n, 0.0), slope, d;
    std::vector<char> is_free(n);
    double largest = 0.0, linear = 0.0;
    for (size_t i = 0; i < n; ++i) {
        is_free[i] = b[i] > m.lo[i] && b[i] < m.hi[i] && !(kinked && b[i] == 0.0);
        largest = std::max(largest, std::abs(K[i * n + i] + m.ridge[i]));
        linear = std::max(linear, std::abs(m.linear[i]));
        if (!kinked) continue;
        if (b[i] > 0.0) low[i] = 0.0;
        if (b[i] < 0.0) high[i] = 0.0;
        side[i] = b[i] > 0.0 ? m.kink : b[i] < 0.0 ? -m.kink : 0.0;
    }
    Report report;
    double spent = 0.0;
    while (report.systems < most_systems) {
        std::vector<size_t> rows;
        for (size_t i = 0; i < n; ++i)
            if (is_free[i]) rows.push_back(i);
        const double cost = double(rows.size()) * double(rows.size()) * double(rows.size());
        spent += cost;
        if (rows.size() < 2 || (report.systems == 0 && cost > first) || spent > all) break;
        Block block(K, rows.size() > most ? 0 : n, m.ridge, rows.size() > most ? std::vector<size_t>() : rows);
        double level = 0.0;
        slope.clear();
        for (const size_t i : rows) slope.push_back(g[i] + side[i]);
        report.left = rows.size() > most || !step(block, slope, total - sums::compensated(b, n), d, &level);
        if (report.left) break;
        ++report.systems;
        bool moved = false;
        for (size_t a = 0; a < rows.size(); ++a) {
            const size_t i = rows[a];
            const double aim = b[i] + d[a], target = std::min(std::max(aim, low[i]), high[i]);
            // rows that left their segment are fixed
            is_free[i] = aim == target;
            moved = moved || !is_free[i];
            change[i] = target - b[i];
            b[i] = target;
        }
        smo::add_rows(K, n, change.data(), g);
        double size = 0.0;
        for (size_t i = 0; i < n; ++i) {
            g[i] += m.ridge[i] * change[i];
            change[i] = 0.0;
            size += std::abs(b[i]);
        }
        const double threshold = 8.0 * EPS * (largest * size + linear);
        std::vector<char> was(n, 0);
        for (const size_t i : rows) was[i] = 1;
        for (size_t i = 0; i < n; ++i) {
            if (was[i]) continue;
            const bool rise = b[i] < m.hi[i] && level - (g[i] + (b[i] < 0.0 ? -m.kink : m.kink)) > threshold;
            const bool fall = b[i] > m.lo[i] && g[i] + (b[i] > 0.0 ? m.kink : -m.kink) - level > threshold;
            if (!rise && !fall) continue;
            is_free[i] = moved = true;
            if (!kinked || b[i] != 0.0) continue;
            low[i] = rise ? 0.0 : m.lo[i];
            high[i] = rise ? m.hi[i] : 0.0;
            side[i] = rise ? m.kink : -m.kink;
        }
        if (moved) continue;
        // the rounding error of the constraint goes to the coefficient farthest from its bounds
        size_t k = rows[0];
        const auto room = [&](size_t i) { return std::min(b[i] - m.lo[i], m.hi[i] - b[i]); };
        for (const size_t i : rows)
            if (room(i) > room(k)) k = i;
        b[k] = std::min(std::max(b[k] + total - sums::compensated(b, n), m.lo[k]), m.hi[k]);
        report.solved = true;
        break;
    }
    return report;
}

}  // namespace active
