// Stacks on their way into packed triangles: matrices of any strides, and exponentials of distances.

namespace stacks {

constexpr size_t EDGE = 8;       // rows and columns of a square
constexpr size_t SIDE = 4;       // kernels that are looked at together
constexpr size_t TOGETHER = 64;  // kernels of a stack that are read side by side

inline bool strange(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7ff0000000000000ULL) == 0x7ff0000000000000ULL;
}

// Negative for numbers that are not finite: all bits of their exponent are set, and one more carries into the sign.
inline int64_t marked(double value) {
    int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return int64_t(uint64_t(bits & 0x7ff0000000000000LL) + 0x0010000000000000ULL);
}

// What was met in some kernels: max |K - K'|, max |K|, and how often there was one that is not finite.
struct Looks {
    std::vector<double> asym, size;
    std::vector<int64_t> bad;
    explicit Looks(size_t M) : asym(M, 0.0), size(M, 0.0), bad(M, 0) {}
};

// any part of a row above the diagonal, of kernels of any strides
inline void look(const double* K, int64_t si, int64_t sj, int64_t sm, size_t n, size_t i, size_t j0, size_t j1, size_t m0, size_t M,
                 double* packed, Looks& looks) {
    for (size_t m = 0; m < M; ++m) {
        const double *a = K + int64_t(i) * si + int64_t(m) * sm, *b = K + int64_t(i) * sj + int64_t(m) * sm;
        double* out = packed + m * triangle(n) + row_start(i, n) - i;
        double &asym = looks.asym[m0 + m], &size = looks.size[m0 + m];
        for (size_t j = j0; j < j1; ++j) {
            const double x = a[int64_t(j) * sj], z = b[int64_t(j) * si];
            asym = std::max(asym, std::fabs(x - z));
            size = std::max(size, std::max(std::fabs(x), std::fabs(z)));
            looks.bad[m0 + m] += int64_t(strange(x) || strange(z));
            out[j] = 0.5 * (x + z);
        }
    }
}

// a square above the diagonal of SIDE kernels that lie side by side, and its mirror image; the squares that are next in
// either are fetched, `ahead_a` and `ahead_b` from here: memory is slower than all the rest
KW_CLONES void look_across(const double* a, const double* b, int64_t si, int64_t sj, int64_t ahead_a, int64_t ahead_b,
                           const size_t* starts, size_t L, double* out, double* asym, double* size, int64_t* bad) {
    double apart[SIDE] = {}, largest[SIDE] = {};
    int64_t odd[SIDE] = {};
    for (size_t i = 0; i < EDGE; ++i) {
        double means[EDGE][SIDE];
        for (size_t j = 0; j < EDGE; ++j) {
            const double *x = a + int64_t(i) * si + int64_t(j) * sj, *z = b + int64_t(j) * si + int64_t(i) * sj;
            KW_FETCH(x + ahead_a);
            KW_FETCH(z + ahead_b);
#pragma omp simd
            for (size_t m = 0; m < SIDE; ++m) {
                const double d = std::fabs(x[m] - z[m]), p = std::fabs(x[m]), q = std::fabs(z[m]), larger = p > q ? p : q;
                apart[m] = d > apart[m] ? d : apart[m];
                largest[m] = larger > largest[m] ? larger : largest[m];
                odd[m] |= marked(x[m]) | marked(z[m]);
                means[j][m] = 0.5 * (x[m] + z[m]);
            }
        }
        for (size_t m = 0; m < SIDE; ++m)
            for (size_t j = 0; j < EDGE; ++j) out[m * L + starts[i] + j] = means[j][m];
    }
    for (size_t m = 0; m < SIDE; ++m) {
        asym[m] = std::max(asym[m], apart[m]);
        size[m] = std::max(size[m], largest[m]);
        bad[m] += int64_t(odd[m] < 0);
    }
}

// squares from column j0 to j1 of one kernel with contiguous rows
KW_CLONES void look_along(const double* K, int64_t step, size_t n, size_t i0, size_t j0, size_t j1, double* P, double* asym,
                          double* size, int64_t* bad) {
    double apart[EDGE] = {}, largest[EDGE] = {};
    int64_t odd[EDGE] = {};
    for (size_t j = j0; j < j1; j += EDGE) {
        double turned[EDGE][EDGE];
        for (size_t c = 0; c < EDGE; ++c)
            for (size_t r = 0; r < EDGE; ++r) turned[r][c] = K[int64_t(j + c) * step + int64_t(i0 + r)];
        for (size_t r = 0; r < EDGE; ++r) {
            const double* a = K + int64_t(i0 + r) * step + int64_t(j);
            double* out = P + row_start(i0 + r, n) + (j - i0 - r);
#pragma omp simd
            for (size_t c = 0; c < EDGE; ++c) {
                const double x = a[c], z = turned[r][c], d = std::fabs(x - z), p = std::fabs(x), q = std::fabs(z);
                const double larger = p > q ? p : q;
                apart[c] = d > apart[c] ? d : apart[c];
                largest[c] = larger > largest[c] ? larger : largest[c];
                odd[c] |= marked(x) | marked(z);
                out[c] = 0.5 * (x + z);
            }
        }
    }
    for (size_t c = 0; c < EDGE; ++c) {
        *asym = std::max(*asym, apart[c]);
        *size = std::max(*size, largest[c]);
        *bad += int64_t(odd[c] < 0);
    }
}

// any strides; kernels whose entries lie side by side in squares
inline void pack_together(const double* K, int64_t si, int64_t sj, int64_t sm, size_t n, size_t m0, size_t M, double* packed,
                          Looks& looks, size_t part) {
    const size_t L = triangle(n);
    for (size_t i0 = part * EDGE; i0 < n; i0 += PARTS * EDGE)
        for (size_t j0 = i0; j0 < n; j0 += EDGE) {
            const size_t i1 = std::min(i0 + EDGE, n), j1 = std::min(j0 + EDGE, n);
            const int64_t next = j1 + EDGE <= n ? EDGE : 0;
            size_t m = 0;
            if (sm == 1 && j0 > i0 && j0 + EDGE == j1) {
                size_t starts[EDGE];
                for (size_t r = 0; r < EDGE; ++r) starts[r] = row_start(i0 + r, n) + (j0 - i0 - r);
                const double *a = K + int64_t(i0) * si + int64_t(j0) * sj, *b = K + int64_t(j0) * si + int64_t(i0) * sj;
                for (; m + SIDE <= M; m += SIDE)
                    look_across(a + m, b + m, si, sj, next * sj, next * si, starts, L, packed + m * L, &looks.asym[m0 + m],
                                &looks.size[m0 + m], &looks.bad[m0 + m]);
            }
            for (size_t i = i0; i < i1; ++i)
                look(K + int64_t(m) * sm, si, sj, sm, n, i, std::max(i, j0), j1, m0 + m, M - m, packed + m * L, looks);
        }
}

// one kernel with contiguous rows
inline void pack_alone(const double* K, int64_t si, size_t n, size_t m, double* P, Looks& looks, size_t part) {
    for (size_t i0 = part * EDGE; i0 < n; i0 += PARTS * EDGE) {
        const size_t i1 = std::min(i0 + EDGE, n), last = n - (n - i1) % EDGE;
        look_along(K, si, n, i0, i1, last, P, &looks.asym[m], &looks.size[m], &looks.bad[m]);
        for (size_t i = i0; i < i1; ++i) {
            look(K, si, 1, 1, n, i, i, i1, m, 1, P, looks);
            look(K, si, 1, 1, n, i, last, n, m, 1, P, looks);
        }
    }
}

// kernels whose rows are dealt to the parts together
inline size_t side_by_side(int64_t sm, size_t M) { return sm == 1 ? std::min(TOGETHER, M) : 1; }

inline void pack(const double* K, int64_t si, int64_t sj, int64_t sm, size_t n, size_t m, size_t M, double* packed, Looks& looks,
                 size_t part) {
    const double* own = K + int64_t(m) * sm;
    double* P = packed + m * triangle(n);
    // of a symmetric matrix rows and columns are the same
    if (M == 1 && sj == 1) pack_alone(own, si, n, m, P, looks, part);
    else if (M == 1 && si == 1) pack_alone(own, sj, n, m, P, looks, part);
    else pack_together(own, si, sj, sm, n, m, M, P, looks, part);
}

// exp(factor * x)
KW_CLONES void exponentials(const double* x, double factor, size_t len, double* out) {
#pragma omp simd
    for (size_t j = 0; j < len; ++j) out[j] = layers::fast_exp(factor * x[j], 0.0);
}

// out = sum over columns of |x_j - x_pivot|, squared or not; X (n_columns, n)
KW_CLONES void distances(const double* X, size_t n_columns, size_t n, size_t pivot, bool squared, double* out) {
    for (size_t j = 0; j < n; ++j) out[j] = 0.0;
    for (size_t c = 0; c < n_columns; ++c) {
        const double* x = X + c * n;
        const double at = x[pivot];
        if (squared) {
#pragma omp simd
            for (size_t j = 0; j < n; ++j) out[j] += (x[j] - at) * (x[j] - at);
        } else {
#pragma omp simd
            for (size_t j = 0; j < n; ++j) out[j] += std::fabs(x[j] - at);
        }
    }
}

// row += level - means
KW_CLONES void shift(double* row, const double* means, double level, size_t len) {
#pragma omp simd
    for (size_t j = 0; j < len; ++j) row[j] += level - means[j];
}

// out = sum over columns of |a_c - B_cj|; four columns of B (n_columns, m) at a time, in pieces of `out` that stay in the
// cache
KW_CLONES void differences(const double* a, const double* B, size_t n_columns, size_t m, double* out) {
    constexpr size_t PIECE = 1024;
    for (size_t start = 0; start < m; start += PIECE) {
        const size_t len = std::min(PIECE, m - start);
        double* target = out + start;
        for (size_t j = 0; j < len; ++j) target[j] = 0.0;
        size_t c = 0;
        for (; c + 4 <= n_columns; c += 4) {
            const double *p = B + c * m + start, *q = p + m, *r = q + m, *s = r + m;
            const double w = a[c], x = a[c + 1], y = a[c + 2], z = a[c + 3];
#pragma omp simd
            for (size_t j = 0; j < len; ++j)
                target[j] += std::fabs(p[j] - w) + std::fabs(q[j] - x) + std::fabs(r[j] - y) + std::fabs(s[j] - z);
        }
        for (; c < n_columns; ++c) {
            const double* p = B + c * m + start;
            const double w = a[c];
#pragma omp simd
            for (size_t j = 0; j < len; ++j) target[j] += std::fabs(p[j] - w);
        }
    }
}

// Pivoted Cholesky of a matrix given by its diagonal and a function for its columns. Z (cap, n) receives the factor's
// columns as rows, K ~ Z'Z. Ends when the residual trace is at most `bound`, or when every row's residual diagonal is
// within eight units in the last place of its own diagonal entry: then rounding is all that is left, and the residual is
// 0. (With two units, pivots on rounding errors make factors a third longer and no more exact.) Pivots are the largest
// residuals, for bound 0 the largest shares of the row's own diagonal: then one huge row changes nothing for the others.
// The rank is -1 when `cap` is not enough.
struct Found {
    int64_t rank;
    double trace;
};

template <class Column>
Found pivoted(size_t n, size_t cap, double bound, std::vector<double>& diag, double* Z, const Column& entries) {
    std::vector<double> column(n), floor(n), share(n, 1.0), factors(cap);
    std::vector<const double*> rows(cap);
    for (size_t i = 0; i < n; ++i) {
        floor[i] = std::max(0.0, 1.7763568394002505e-15 * diag[i]);
        if (bound <= 0.0) share[i] = 1.0 / std::max(diag[i], std::numeric_limits<double>::min());
    }
    for (size_t rank = 0;; ++rank) {
        double trace = 0.0;
        size_t pivot = 0;
        bool found = true;
        for (size_t i = 0; i < n; ++i) {
            trace += std::max(diag[i], 0.0);
            if (diag[i] > floor[i]) found = false;
            if (share[i] * diag[i] > share[pivot] * diag[pivot]) pivot = i;
        }
        if (found) return {int64_t(rank), 0.0};
        if (trace <= bound) return {int64_t(rank), trace};
        if (rank == cap) return {-1, trace};
        entries(pivot, column.data());
        for (size_t r = 0; r < rank; ++r) factors[r] = -Z[r * n + pivot];
        combine_row(rows.data(), factors.data(), rank, column.data(), n);
        const double root = std::sqrt(diag[pivot]);
        double* z = Z + rank * n;
        for (size_t i = 0; i < n; ++i) {
            // rows that are eliminated already have an exact zero
            z[i] = diag[i] <= 0.0 && i != pivot ? 0.0 : column[i] / root;
            diag[i] -= z[i] * z[i];
        }
        z[pivot] = root;
        diag[pivot] = 0.0;
        rows[rank] = z;
    }
}

}  // namespace stacks
