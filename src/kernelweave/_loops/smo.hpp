// Sequential minimal optimisation for the machines with one kernel:
//
//     min  1/2 b'(K + diag(ridge)) b + q'b + kink |b|_1    s.t.  1'b fixed,  lo <= b <= hi
//
// with signed coefficients b, so that no label and no second copy of the variables appears. The derivative of
// coordinate k upwards is U_k = g_k + up_k and downwards D_k = g_k + down_k, where g = (K + diag(ridge)) b + q; the
// offsets hold the kink (+kink or -kink) and the box (HUGE where the coordinate cannot move). A point is optimal
// when min U >= max D.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace smo {

// takes the place of infinity, which the build assumes not to occur
constexpr double HUGE_OFFSET = 1e300;
// blocks of the vectorised searches: the extreme value is found first, its index inside the best block afterwards
constexpr size_t BLOCK = 32;
// smallest curvature, as a share of the diagonal
constexpr double FLAT = 1e-12;

struct Extremes {
    double low;    // min U
    double high;   // max D
    size_t where;  // argmin U
};

KW_CLONES void update(double* g, const double* Ki, const double* Kj, double delta, const double* up,
                      const double* down, size_t n, Extremes* out) {
    double low = 2.0 * HUGE_OFFSET, high = -2.0 * HUGE_OFFSET;
    size_t best = 0;
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t end = std::min(start + BLOCK, n);
        double u = 2.0 * HUGE_OFFSET, d = -2.0 * HUGE_OFFSET;
#pragma omp simd reduction(min : u) reduction(max : d)
        for (size_t k = start; k < end; ++k) {
            const double value = g[k] + delta * (Ki[k] - Kj[k]);
            g[k] = value;
            const double a = value + up[k], b = value + down[k];
            u = a < u ? a : u;
            d = b > d ? b : d;
        }
        if (u < low) { low = u; best = start; }
        high = d > high ? d : high;
    }
    size_t where = best;
    for (size_t k = best; k < std::min(best + BLOCK, n); ++k)
        if (g[k] + up[k] < g[where] + up[where]) where = k;
    *out = {low, high, where};
}

// The partner of coordinate i by the second-order rule: the largest decrease along e_i - e_k.
KW_CLONES size_t partner(const double* Ki, const double* g, const double* down, const double* diag, double low,
                         double dii, double floor, size_t n) {
    double top = 0.0;
    size_t best = n;
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t end = std::min(start + BLOCK, n);
        double t = 0.0;
#pragma omp simd reduction(max : t)
        for (size_t k = start; k < end; ++k) {
            const double slope = g[k] + down[k] - low;
            const double curvature = dii + diag[k] - 2.0 * Ki[k];
            const double gain = (slope > 0.0 ? slope * slope : 0.0) / (curvature > floor ? curvature : floor);
            t = gain > t ? gain : t;
        }
        if (t > top) { top = t; best = start; }
    }
    if (best == n) return n;
    // computed anew, because the vectorised values may be rounded differently
    size_t where = n;
    double most = 0.0;
    for (size_t k = best; k < std::min(best + BLOCK, n); ++k) {
        const double slope = g[k] + down[k] - low;
        const double curvature = dii + diag[k] - 2.0 * Ki[k];
        const double gain = slope > 0.0 ? slope * slope / (curvature > floor ? curvature : floor) : 0.0;
        if (gain > most) { most = gain; where = k; }
    }
    return where;
}

// g += sum_k w[k] K[k]
inline void add_rows(const double* K, size_t n, const double* w, double* g) {
    std::vector<const double*> rows;
    std::vector<double> weights;
    for (size_t k = 0; k < n; ++k)
        if (w[k] != 0.0) { rows.push_back(K + k * n); weights.push_back(w[k]); }
    combine_row(rows.data(), weights.data(), rows.size(), g, n);
}

// out = sum_k w[k] K[k], summed in long double and rounded once
inline void long_product(const double* K, size_t n, const double* w, double* out) {
    constexpr size_t WIDTH = 64;
    long double sums[WIDTH];
    for (size_t first = 0; first < n; first += WIDTH) {
        const size_t width = std::min(WIDTH, n - first);
        std::fill(sums, sums + width, 0.0L);
        for (size_t k = 0; k < n; ++k) {
            if (w[k] == 0.0) continue;
            const double* row = K + k * n + first;
            const long double own = w[k];
            for (size_t c = 0; c < width; ++c) sums[c] += own * row[c];
        }
        for (size_t c = 0; c < width; ++c) out[first + c] = double(sums[c]);
    }
}

// The active coordinates: all, or the rows and columns of those left after shrinking, copied together so
// that the searches stay contiguous (an index list would gather) and the matrix moves into a nearer cache.
struct View {
    const double* K = nullptr;
    size_t n = 0;
    std::vector<size_t> index;  // empty: all
    std::vector<double> copy, b, g, up, down, diag, lo, hi, ridge;
    double kink = 0.0, floor = 0.0;

    void offsets(size_t k) {
        up[k] = b[k] >= hi[k] ? HUGE_OFFSET : b[k] < 0.0 ? -kink : kink;
        down[k] = b[k] <= lo[k] ? -HUGE_OFFSET : b[k] > 0.0 ? kink : -kink;
    }

    View keep(const double* full, size_t ld, const std::vector<size_t>& kept) const {
        View out;
        out.n = kept.size();
        out.kink = kink;
        out.floor = floor;
        out.copy.resize(out.n * out.n);
        for (size_t a = 0; a < out.n; ++a) {
            const size_t k = kept[a];
            out.index.push_back(index.empty() ? k : index[k]);
            out.b.push_back(b[k]);
            out.g.push_back(g[k]);
            out.up.push_back(up[k]);
            out.down.push_back(down[k]);
            out.diag.push_back(diag[k]);
            out.lo.push_back(lo[k]);
            out.hi.push_back(hi[k]);
            out.ridge.push_back(ridge[k]);
        }
        for (size_t a = 0; a < out.n; ++a) {
            const double* row = full + out.index[a] * ld;
            double* target = out.copy.data() + a * out.n;
            for (size_t c = 0; c < out.n; ++c) target[c] = row[out.index[c]];
        }
        out.K = out.copy.data();
        return out;
    }
};

struct Report {
    int64_t steps;
    double violation;  // max D - min U, at least 0
    double curvature;       // most negative curvature of a pair, as a share of its diagonal entries; 0 if none was met
};

// b is start and result, and so is g, the gradient at b.
inline Report solve(const double* K, size_t n, const double* ridge, const double* lo, const double* hi, double kink,
                    double* b, double* g, double eps, int64_t max_steps, bool shrink) {
    Report report{0, 0.0, 0.0};
    View all;
    all.K = K;
    all.n = n;
    all.kink = kink;
    all.b.assign(b, b + n);
    all.g.assign(g, g + n);
    all.lo.assign(lo, lo + n);
    all.hi.assign(hi, hi + n);
    all.ridge.assign(ridge, ridge + n);
    all.up.resize(n);
    all.down.resize(n);
    all.diag.resize(n);
    double largest = 0.0;
    for (size_t k = 0; k < n; ++k) {
        all.diag[k] = K[k * n + k] + ridge[k];
        largest = std::max(largest, all.diag[k]);
        all.offsets(k);
    }
    all.floor = std::max(FLAT * largest, 1e-300);
    std::vector<double> moved(n, 0.0);
    View part;
    View* view = &all;
    Extremes at{};
    // copies the coefficients of the part to all coordinates, whose gradients are those from before shrinking
    auto write_back = [&] {
        for (size_t a = 0; a < part.n; ++a) {
            const size_t k = part.index[a];
            moved[k] = part.b[a] - all.b[k];
            all.b[k] = part.b[a];
        }
        add_rows(K, n, moved.data(), all.g.data());
        for (size_t k : part.index) {
            all.g[k] += moved[k] * ridge[k];
            moved[k] = 0.0;
            all.offsets(k);
        }
    };
    auto refresh = [&] {
        update(view->g.data(), view->K, view->K, 0.0, view->up.data(), view->down.data(), view->n, &at);
    };
    refresh();

    int64_t period = int64_t(std::min<size_t>(n, 1000)), next = period;
    while (report.steps < max_steps) {
        View& v = *view;
        size_t j = v.n;
        const size_t i = at.where;
        if (at.high - at.low > eps)
            j = partner(v.K + i * v.n, v.g.data(), v.down.data(), v.diag.data(), at.low, v.diag[i], v.floor, v.n);
        if (j == v.n) {
            if (view == &all) break;
            write_back();
            view = &all;
            refresh();
            period *= 2;
            next = report.steps + period;
            continue;
        }
        const double* Ki = v.K + i * v.n;
        const double* Kj = v.K + j * v.n;
        const double curvature = v.diag[i] + v.diag[j] - 2.0 * Ki[j];
        if (curvature < 0.0) report.curvature = std::min(report.curvature, curvature / (v.diag[i] + v.diag[j] + 1e-300));
        const double wanted = (v.g[j] + v.down[j] - at.low) / std::max(curvature, v.floor);
        // a step ends at the kink, where the derivatives change
        const double top = v.kink > 0.0 && v.b[i] < 0.0 ? 0.0 : v.hi[i];
        const double bottom = v.kink > 0.0 && v.b[j] > 0.0 ? 0.0 : v.lo[j];
        const double room_i = top - v.b[i], room_j = v.b[j] - bottom;
        const double delta = std::min(wanted, std::min(room_i, room_j));
        v.b[i] = delta >= room_i ? top : v.b[i] + delta;
        v.b[j] = delta >= room_j ? bottom : v.b[j] - delta;
        v.g[i] += delta * v.ridge[i];
        v.g[j] -= delta * v.ridge[j];
        v.offsets(i);
        v.offsets(j);
        update(v.g.data(), Ki, Kj, delta, v.up.data(), v.down.data(), v.n, &at);
        ++report.steps;
        if (shrink && report.steps >= next) {
            next = report.steps + period;
            std::vector<size_t> kept;
            for (size_t k = 0; k < v.n; ++k)
                if (v.g[k] + v.up[k] <= at.high || v.g[k] + v.down[k] >= at.low) kept.push_back(k);
            // copying costs the number of entries, so it is done only where it saves enough
            if (kept.size() >= 2 && 10 * kept.size() <= 7 * v.n) {
                View smaller = v.keep(K, n, kept);
                if (view == &part) write_back();  // coordinates that leave keep their coefficients
                part = std::move(smaller);
                view = &part;
                refresh();
            }
        }
    }
    if (view != &all) {
        write_back();
        view = &all;
        refresh();
    }
    std::copy(all.b.begin(), all.b.end(), b);
    std::copy(all.g.begin(), all.g.end(), g);
    report.violation = std::max(0.0, at.high - at.low);
    return report;
}

}  // namespace smo
