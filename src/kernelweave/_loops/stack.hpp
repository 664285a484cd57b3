// Stacks on their way into packed triangles: matrices of any strides, and exponentials of distances.

namespace stacks {

constexpr size_t EDGE = 32;      // rows and columns of a tile
constexpr size_t LINE = 8;       // rows of a tile, and entries that are read at a time with any strides
constexpr size_t SIDE = 4;       // kernels that are looked at together
constexpr size_t TOGETHER = 32;  // kernels of a stack that are read side by side

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

// some entries of a row of kernels that lie side by side: `a` above the diagonal and `b` the mirror images, each with its own
// stride, into the triangles of these kernels; what is met of SIDE kernels stays in registers
KW_CLONES void look(const double* a, const double* b, int64_t a_step, int64_t b_step, size_t width, size_t M, double* out, size_t L,
                    double* asym, double* size, int64_t* bad) {
    for (size_t m0 = 0; m0 < M; m0 += SIDE) {
        const size_t count = std::min(SIDE, M - m0);
        double means[EDGE][SIDE], apart[SIDE] = {}, largest[SIDE] = {};
        int64_t odd[SIDE] = {};
        if (count == SIDE) {
            for (size_t j = 0; j < width; ++j) {
                const double *x = a + int64_t(j) * a_step + m0, *z = b + int64_t(j) * b_step + m0;
#pragma omp simd
                for (size_t m = 0; m < SIDE; ++m) {
                    const double d = std::fabs(x[m] - z[m]), p = std::fabs(x[m]), q = std::fabs(z[m]), larger = p > q ? p : q;
                    apart[m] = d > apart[m] ? d : apart[m];
                    largest[m] = larger > largest[m] ? larger : largest[m];
                    odd[m] |= marked(x[m]) | marked(z[m]);
                    means[j][m] = 0.5 * (x[m] + z[m]);
                }
            }
        } else {
            for (size_t j = 0; j < width; ++j)
                for (size_t m = 0; m < count; ++m) {
                    const double x = a[int64_t(j) * a_step + int64_t(m0 + m)], z = b[int64_t(j) * b_step + int64_t(m0 + m)];
                    apart[m] = std::max(apart[m], std::fabs(x - z));
                    largest[m] = std::max(largest[m], std::max(std::fabs(x), std::fabs(z)));
                    odd[m] |= marked(x) | marked(z);
                    means[j][m] = 0.5 * (x + z);
                }
        }
        for (size_t m = 0; m < count; ++m) {
            double* to = out + (m0 + m) * L;
            if (width == EDGE) {
                for (size_t j = 0; j < EDGE; ++j) to[j] = means[j][m];
            } else {
                for (size_t j = 0; j < width; ++j) to[j] = means[j][m];
            }
            asym[m0 + m] = std::max(asym[m0 + m], apart[m]);
            size[m0 + m] = std::max(size[m0 + m], largest[m]);
            bad[m0 + m] += int64_t(odd[m] < 0);
        }
    }
}

// one row of a tile of one kernel: `a` above the diagonal, `b` its mirror image
KW_CLONES void look_along(const double* a, const double* b, size_t len, double* mean, double* asym, double* size, int64_t* bad) {
    double w = *asym, s = *size;
    int64_t count = 0;
#pragma omp simd reduction(max : w, s) reduction(+ : count)
    for (size_t j = 0; j < len; ++j) {
        const double d = std::fabs(a[j] - b[j]), p = std::fabs(a[j]), q = std::fabs(b[j]);
        w = d > w ? d : w;
        s = p > s ? p : s;
        s = q > s ? q : s;
        count += int64_t(strange(a[j]) | strange(b[j]));
        mean[j] = 0.5 * (a[j] + b[j]);
    }
    *asym = w;
    *size = s;
    *bad += count;
}

// kernels last: entries of all kernels lie side by side
inline void pack_together(const double* K, int64_t si, int64_t sj, size_t n, size_t m0, size_t M, double* packed, Looks& looks,
                          size_t part) {
    const size_t L = triangle(n);
    for (size_t i0 = part * LINE; i0 < n; i0 += PARTS * LINE)
        for (size_t j0 = i0 / EDGE * EDGE; j0 < n; j0 += EDGE)
            for (size_t i = i0; i < std::min(i0 + LINE, n); ++i) {
                const size_t js = std::max(i, j0), j1 = std::min(j0 + EDGE, n);
                if (js < j1)
                    look(K + int64_t(i) * si + int64_t(js) * sj, K + int64_t(js) * si + int64_t(i) * sj, sj, si, j1 - js, M,
                         packed + row_start(i, n) + (js - i), L, &looks.asym[m0], &looks.size[m0], &looks.bad[m0]);
            }
}

// one kernel with contiguous rows
inline void pack_alone(const double* K, int64_t si, size_t n, size_t m, double* P, Looks& looks, size_t part) {
    double turned[EDGE * EDGE];
    for (size_t i0 = part * EDGE; i0 < n; i0 += PARTS * EDGE) {
        const size_t rows = std::min(EDGE, n - i0);
        for (size_t j0 = i0; j0 < n; j0 += EDGE) {
            const size_t columns = std::min(EDGE, n - j0);
            for (size_t j = 0; j < columns; ++j)
                for (size_t i = 0; i < rows; ++i) turned[i * EDGE + j] = K[int64_t(j0 + j) * si + int64_t(i0 + i)];
            for (size_t i = 0; i < rows; ++i) {
                const size_t skip = j0 == i0 ? i : 0;
                look_along(K + int64_t(i0 + i) * si + int64_t(j0 + skip), turned + i * EDGE + skip, columns - skip,
                           P + row_start(i0 + i, n) + (j0 + skip - i0 - i), &looks.asym[m], &looks.size[m], &looks.bad[m]);
            }
        }
    }
}

// any strides
inline void pack_strided(const double* K, int64_t si, int64_t sj, size_t n, size_t m, double* P, Looks& looks, size_t part) {
    double a[LINE], b[LINE];
    for (size_t i0 = part * LINE; i0 < n; i0 += PARTS * LINE)
        for (size_t j0 = i0; j0 < n; j0 += LINE)
            for (size_t i = i0; i < std::min(i0 + LINE, n); ++i) {
                const size_t js = std::max(i, j0), j1 = std::min(j0 + LINE, n);
                for (size_t j = js; j < j1; ++j) {
                    a[j - js] = K[int64_t(i) * si + int64_t(j) * sj];
                    b[j - js] = K[int64_t(j) * si + int64_t(i) * sj];
                }
                if (js < j1)
                    look_along(a, b, j1 - js, P + row_start(i, n) + (js - i), &looks.asym[m], &looks.size[m], &looks.bad[m]);
            }
}

inline void pack(const double* K, int64_t si, int64_t sj, int64_t sm, size_t n, size_t M, double* packed, Looks& looks,
                 size_t part) {
    if (sm == 1 && M > 1) {
        for (size_t m0 = 0; m0 < M; m0 += TOGETHER)
            pack_together(K + m0, si, sj, n, m0, std::min(TOGETHER, M - m0), packed + m0 * triangle(n), looks, part);
        return;
    }
    for (size_t m = 0; m < M; ++m) {
        const double* own = K + int64_t(m) * sm;
        double* P = packed + m * triangle(n);
        // of a symmetric matrix rows and columns are the same
        if (sj == 1) pack_alone(own, si, n, m, P, looks, part);
        else if (si == 1) pack_alone(own, sj, n, m, P, looks, part);
        else pack_strided(own, si, sj, n, m, P, looks, part);
    }
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
