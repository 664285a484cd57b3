// Compiled inner loops over plain arrays. Each has a NumPy twin in packed.py that is its oracle and its fallback.
//
// Packed triangles: the upper triangle of a symmetric (n, n) matrix, row after row, so row i holds K[i, i:] and
// starts at i*n - i*(i-1)/2. Functions with an argument `threads` divide their work; all others run on one thread.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__ELF__)
#define KW_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KW_CLONES
#endif

// asks for the memory at an address before it is needed
#if defined(__GNUC__)
#define KW_FETCH(address) __builtin_prefetch(address)
#else
#define KW_FETCH(address) ((void)0)
#endif

namespace nb = nanobind;
using namespace nb::literals;
using In1 = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using In2 = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using In3 = nb::ndarray<const double, nb::ndim<3>, nb::device::cpu>;
using Index = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out1 = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out2 = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Out3 = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

namespace {

inline size_t row_start(size_t i, size_t n) { return i * n - i * (i + 1) / 2 + i; }
inline size_t triangle(size_t n) { return n * (n + 1) / 2; }

KW_CLONES double quad_one(const double* P, const double* c, size_t n) {
    double total = 0.0;
    for (size_t i = 0; i < n; ++i) {
        const double* row = P + row_start(i, n) - i;
        double acc = 0.0;
#pragma omp simd reduction(+ : acc)
        for (size_t j = i + 1; j < n; ++j) acc += row[j] * c[j];
        total += c[i] * (2.0 * acc + row[i] * c[i]);
    }
    return total;
}

KW_CLONES void symv_one(const double* P, const double* c, double* out, size_t n) {
    for (size_t i = 0; i < n; ++i) out[i] = 0.0;
    for (size_t i = 0; i < n; ++i) {
        const double* row = P + row_start(i, n) - i;
        const double ci = c[i];
        double acc = 0.0;
#pragma omp simd reduction(+ : acc)
        for (size_t j = i + 1; j < n; ++j) {
            acc += row[j] * c[j];
            out[j] += ci * row[j];
        }
        out[i] += acc + row[i] * ci;
    }
}

KW_CLONES void combine_row(const double* const* rows, const double* w, size_t k, double* out, size_t len) {
    size_t m = 0;
    for (; m + 4 <= k; m += 4) {
        const double *a = rows[m], *b = rows[m + 1], *c = rows[m + 2], *d = rows[m + 3];
        const double wa = w[m], wb = w[m + 1], wc = w[m + 2], wd = w[m + 3];
#pragma omp simd
        for (size_t j = 0; j < len; ++j) out[j] += wa * a[j] + wb * b[j] + wc * c[j] + wd * d[j];
    }
    for (; m < k; ++m) {
        const double* a = rows[m];
        const double wa = w[m];
#pragma omp simd
        for (size_t j = 0; j < len; ++j) out[j] += wa * a[j];
    }
}

KW_CLONES double dot(const double* a, const double* b, size_t n) {
    double acc = 0.0;
#pragma omp simd reduction(+ : acc)
    for (size_t i = 0; i < n; ++i) acc += a[i] * b[i];
    return acc;
}

KW_CLONES void axpy(double s, const double* x, double* y, size_t n) {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) y[i] += s * x[i];
}

// Work in parts on a few threads. The parts and their number do not depend on the number of threads, so that results do
// not either.
constexpr size_t PARTS = 4;

template <class Body>
void in_parts(int64_t threads, const Body& body) {
    const size_t team = std::min(PARTS, size_t(std::max<int64_t>(threads, 1)));
    std::exception_ptr failures[PARTS];
    const auto share = [&](size_t first) {
        try {
            for (size_t part = first; part < PARTS; part += team) body(part);
        } catch (...) {
            failures[first] = std::current_exception();
        }
    };
    std::thread others[PARTS];
    for (size_t t = 1; t < team; ++t) {
        try {
            others[t] = std::thread(share, t);
        } catch (const std::system_error&) {
            // no thread can be started: its share is done here
            share(t);
        }
    }
    share(0);
    for (std::thread& other : others)
        if (other.joinable()) other.join();
    for (const std::exception_ptr& failure : failures)
        if (failure) std::rethrow_exception(failure);
}

// rows of a triangle, dealt to the parts in blocks, so that all parts have about the same length
constexpr size_t BLOCK = 16;

template <class Body>
void rows_of(size_t part, size_t n, const Body& body) {
    for (size_t start = part * BLOCK; start < n; start += PARTS * BLOCK)
        for (size_t i = start; i < std::min(start + BLOCK, n); ++i) body(i);
}

// four sums at once, so that b is read once
KW_CLONES void dot_four(const double* const* a, const double* b, size_t n, double* out) {
    const double *p = a[0], *q = a[1], *r = a[2], *s = a[3];
    double tp = 0.0, tq = 0.0, tr = 0.0, ts = 0.0;
#pragma omp simd reduction(+ : tp, tq, tr, ts)
    for (size_t i = 0; i < n; ++i) {
        tp += p[i] * b[i];
        tq += q[i] * b[i];
        tr += r[i] * b[i];
        ts += s[i] * b[i];
    }
    out[0] = tp, out[1] = tq, out[2] = tr, out[3] = ts;
}

// Tiles go through buffers, so that neither half is read or written with long strides; they are turned in squares of 8,
// which stay in registers.
KW_CLONES void mirror_tiles(double* P, size_t n, size_t part) {
    constexpr size_t B = 32, S = 8;
    double rows[B][B], tile[B][B];
    for (size_t j0 = part * B; j0 < n; j0 += PARTS * B) {
        const size_t j1 = std::min(j0 + B, n);
        for (size_t i0 = 0; i0 < j0; i0 += B) {
            if (j1 - j0 == B) {
                for (size_t i = 0; i < B; ++i) std::copy(P + (i0 + i) * n + j0, P + (i0 + i) * n + j1, rows[i]);
                for (size_t i = 0; i < B; i += S)
                    for (size_t j = 0; j < B; j += S)
                        for (size_t c = 0; c < S; ++c)
                            for (size_t r = 0; r < S; ++r) tile[j + c][i + r] = rows[i + r][j + c];
            } else {
                for (size_t i = i0; i < i0 + B; ++i)
                    for (size_t j = j0; j < j1; ++j) tile[j - j0][i - i0] = P[i * n + j];
            }
            for (size_t j = j0; j < j1; ++j) std::copy(tile[j - j0], tile[j - j0] + B, P + j * n + i0);
        }
        for (size_t i = j0; i < j1; ++i)
            for (size_t j = i + 1; j < j1; ++j) P[j * n + i] = P[i * n + j];
    }
}

#include "sizes.hpp"
#include "smo.hpp"
#include "box.hpp"
#include "layers.hpp"
#include "stack.hpp"
#include "active_set.hpp"
#include "rounds.hpp"
#include "cholesky.hpp"
#include "columns.hpp"
#include "blocks.hpp"
#include "gaussians.hpp"
#include "krylov.hpp"
#include "evidence.hpp"
#include "logistic.hpp"

using sizes::expect;

// whether every entry of an index lies in [0, length), for checks of arguments in inner loops
bool inside(Index idx, int64_t length) {
    bool good = true;
    for (size_t k = 0; k < idx.shape(0); ++k) good = good && idx(k) >= 0 && idx(k) < length;
    return good;
}

// out (k,) = C-weighted quadratic forms sum_t C[t]' K_m C[t] of the packed kernels m in idx
void quadratic_forms(In2 packed, Index idx, In2 C, Out1 out, int64_t threads) {
    const size_t n = C.shape(1), L = triangle(n);
    expect("packed", packed, {packed.shape(0), L});
    sizes::expect_inside("idx", idx, packed.shape(0));
    expect("out", out, {idx.shape(0)});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        for (size_t k = part; k < idx.shape(0); k += PARTS) {
            double total = 0.0;
            for (size_t t = 0; t < C.shape(0); ++t)
                total += quad_one(packed.data() + size_t(idx(k)) * L, C.data() + t * n, n);
            out(k) = total;
        }
    });
}

// out (k, T, n) = K_m C[t]
void matvecs(In2 packed, Index idx, In2 C, Out3 out, int64_t threads) {
    const size_t n = C.shape(1), L = triangle(n), T = C.shape(0);
    expect("packed", packed, {packed.shape(0), L});
    sizes::expect_inside("idx", idx, packed.shape(0));
    expect("out", out, {idx.shape(0), T, n});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        for (size_t k = part; k < idx.shape(0); k += PARTS)
            for (size_t t = 0; t < T; ++t)
                symv_one(packed.data() + size_t(idx(k)) * L, C.data() + t * n, out.data() + (k * T + t) * n, n);
    });
}

// upper triangle of out (n, n) = sum_k w[k] K_{idx[k]}; entries below the diagonal are not written
void combine(In2 packed, Index idx, In1 w, Out2 out, int64_t threads) {
    const size_t n = out.shape(0), L = triangle(n), k = idx.shape(0);
    expect("out", out, {n, n});
    expect("packed", packed, {packed.shape(0), L});
    sizes::expect_inside("idx", idx, packed.shape(0));
    expect("w", w, {k});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        std::vector<const double*> rows(k);
        rows_of(part, n, [&](size_t i) {
            for (size_t m = 0; m < k; ++m) rows[m] = packed.data() + size_t(idx(m)) * L + row_start(i, n);
            double* target = out.data() + i * n + i;
            std::fill(target, target + (n - i), 0.0);
            combine_row(rows.data(), w.data(), k, target, n - i);
        });
    });
}

// packed (M, L) from a stack (n, n, M) of any strides; asym (M,) = max |K - K'|, size (M,) = max |K|,
// bad (M,) counts pairs of entries of which one is not finite. Entries of the triangle are the mean of both halves.
void pack(In3 stack, Out2 packed, Out1 asym, Out1 size, Out1 bad, int64_t threads) {
    const size_t n = stack.shape(0), M = stack.shape(2), L = triangle(n);
    expect("stack", stack, {n, n, M});
    expect("packed", packed, {M, L});
    expect("asym", asym, {M});
    expect("size", size, {M});
    expect("bad", bad, {M});
    nb::gil_scoped_release free;
    std::vector<stacks::Looks> looks(PARTS, stacks::Looks(M));
    const size_t together = stacks::side_by_side(stack.stride(2), M);
    for (size_t m = 0; m < M; m += together)
        in_parts(threads, [&](size_t part) {
            stacks::pack(stack.data(), stack.stride(0), stack.stride(1), stack.stride(2), n, m, std::min(together, M - m),
                         packed.data(), looks[part], part);
        });
    for (size_t m = 0; m < M; ++m) {
        asym(m) = size(m) = bad(m) = 0.0;
        for (const stacks::Looks& own : looks) {
            asym(m) = std::max(asym(m), own.asym[m]);
            size(m) = std::max(size(m), own.size[m]);
            bad(m) += double(own.bad[m]);
        }
    }
}

// whether K + shift I of a packed kernel has a Cholesky factor, with entries to units in the last place of `level`:
// products of smaller numbers underflow, which takes the processor long
bool definite(In1 packed, int64_t n_samples, double shift, double level) {
    sizes::expect_rows("packed", packed);
    sizes::expect_index("n_samples", n_samples, packed.shape(0) + 1);
    const size_t n = size_t(n_samples);
    expect("packed", packed, {triangle(n)});
    nb::gil_scoped_release free;
    return cholesky::definite(packed.data(), n, shift, level);
}

// Some rows of triangles of several kernels: exp(-gammas[k] D), where D (n_rows, n - first) are distances of the rows from
// `first` on with all rows from `first` on. Below the diagonal D is not read.
void decays(In2 D, int64_t first, In1 gammas, Out2 packed, int64_t threads) {
    const size_t rows = D.shape(0), k = gammas.shape(0), start = size_t(first), n = start + D.shape(1), L = triangle(n);
    sizes::expect_index("first", first, n);
    if (rows > D.shape(1)) sizes::refuse("`D` must not have more rows than columns");
    expect("packed", packed, {k, L});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        rows_of(part, rows, [&](size_t i) {
            constexpr size_t SEGMENT = 512;
            const size_t len = n - start - i;
            const double* x = D.data() + i * D.shape(1) + i;
            for (size_t j = 0; j < len; j += SEGMENT)
                for (size_t m = 0; m < k; ++m)
                    stacks::exponentials(x + j, -gammas(m), std::min(SEGMENT, len - j),
                                         packed.data() + m * L + row_start(start + i, n) + j);
        });
    });
}

// out = exp(-gamma D) C', where D (r, n) are distances and C (n_vectors, n), out (r, n_vectors)
void decay_product(In2 D, double gamma, In2 C, Out2 out, int64_t threads) {
    const size_t r = D.shape(0), n = D.shape(1), vectors = C.shape(0);
    expect("C", C, {vectors, n});
    expect("out", out, {r, vectors});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        rows_of(part, r, [&](size_t i) {
            constexpr size_t SEGMENT = 512;
            double values[SEGMENT];
            double* to = out.data() + i * vectors;
            std::fill(to, to + vectors, 0.0);
            for (size_t j = 0; j < n; j += SEGMENT) {
                const size_t len = std::min(SEGMENT, n - j);
                stacks::exponentials(D.data() + i * n + j, -gamma, len, values);
                for (size_t v = 0; v < vectors; ++v) to[v] += dot(values, C.data() + v * n + j, len);
            }
        });
    });
}

// triangles of K_m[rows, rows] from those of K_m (n, n), in the order of `rows`
void choose_rows(In2 packed, Index rows, int64_t n_samples, Out2 out, int64_t threads) {
    const size_t n = size_t(n_samples), r = rows.shape(0), M = packed.shape(0), L = triangle(n), own = triangle(r);
    expect("packed", packed, {M, L});
    sizes::expect_inside("rows", rows, n);
    expect("out", out, {M, own});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        std::vector<size_t> at(r);
        rows_of(part, r, [&](size_t a) {
            const size_t i = size_t(rows(a));
            for (size_t b = a; b < r; ++b) {
                const size_t j = size_t(rows(b)), low = std::min(i, j);
                at[b] = row_start(low, n) + (std::max(i, j) - low);
            }
            for (size_t m = 0; m < M; ++m) {
                const double* P = packed.data() + m * L;
                double* target = out.data() + m * own + row_start(a, r) - a;
                for (size_t b = a; b < r; ++b) target[b] = P[at[b]];
            }
        });
    });
}

// K_m,ij + totals[m] - means[m, i] - means[m, j], in place
void shift_rows(Out2 packed, In2 means, In1 totals, int64_t threads) {
    const size_t M = means.shape(0), n = means.shape(1), L = triangle(n);
    expect("packed", packed, {M, L});
    expect("totals", totals, {M});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        rows_of(part, n, [&](size_t i) {
            for (size_t m = 0; m < M; ++m)
                stacks::shift(packed.data() + m * L + row_start(i, n), means.data() + m * n + i,
                              totals(m) - means.data()[m * n + i], n - i);
        });
    });
}

// out (r, m) = sums over columns of |A_ic - B_cj|, of rows A (r, n_columns) and columns B (n_columns, m)
void differences(In2 A, In2 B, Out2 out, int64_t threads) {
    const size_t r = A.shape(0), n_columns = A.shape(1), m = B.shape(1);
    expect("B", B, {n_columns, m});
    expect("out", out, {r, m});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        rows_of(part, r, [&](size_t i) {
            stacks::differences(A.data() + i * n_columns, B.data(), n_columns, m, out.data() + i * m);
        });
    });
}

// see stacks::pivoted; of one packed kernel
nb::tuple pivoted_cholesky(In1 packed, double bound, Out2 Z) {
    const size_t n = Z.shape(1);
    expect("packed", packed, {triangle(n)});
    sizes::expect_rows("packed", packed);
    stacks::Found found;
    {
        nb::gil_scoped_release free;
        const double* P = packed.data();
        std::vector<double> diag(n);
        for (size_t i = 0; i < n; ++i) diag[i] = P[row_start(i, n)];
        found = stacks::pivoted(n, Z.shape(0), bound, diag, Z.data(), [&](size_t pivot, double* column) {
            for (size_t i = 0; i < pivot; ++i) column[i] = P[row_start(i, n) + (pivot - i)];
            std::copy(P + row_start(pivot, n), P + row_start(pivot, n) + (n - pivot), column + pivot);
        });
    }
    return nb::make_tuple(found.rank, found.trace);
}

// see stacks::pivoted; of exp(-gamma D), where D are distances of the columns of X (n_columns, n): sums of squared
// differences, or of absolute ones
nb::tuple pivoted_decay(In2 X, double gamma, bool squared, double bound, Out2 Z) {
    const size_t n = Z.shape(1);
    expect("X", X, {X.shape(0), n});
    sizes::expect_rows("X", X);
    stacks::Found found;
    {
        nb::gil_scoped_release free;
        std::vector<double> diag(n, 1.0);
        found = stacks::pivoted(n, Z.shape(0), bound, diag, Z.data(), [&](size_t pivot, double* column) {
            stacks::distances(X.data(), X.shape(0), n, pivot, squared, column);
            stacks::exponentials(column, -gamma, n, column);
        });
    }
    return nb::make_tuple(found.rank, found.trace);
}

// out (k, T, n): Z_m (Z_m' C[t]) for factor kernels; Zt (R, n) rows are factor columns, kernel m owns rows
// offsets[m]..offsets[m+1]; scores (T, R) = C Zt'
void factor_matvecs(In2 Zt, Index offsets, Index idx, In2 scores, Out3 out) {
    const size_t n = Zt.shape(1), T = scores.shape(0), R = Zt.shape(0);
    sizes::expect_offsets("offsets", offsets, R);
    sizes::expect_inside("idx", idx, offsets.shape(0) - 1);
    expect("scores", scores, {T, R});
    expect("out", out, {idx.shape(0), T, n});
    nb::gil_scoped_release free;
    for (size_t k = 0; k < idx.shape(0); ++k)
        for (size_t t = 0; t < T; ++t) {
            double* target = out.data() + (k * T + t) * n;
            std::fill(target, target + n, 0.0);
            for (int64_t r = offsets(idx(k)); r < offsets(idx(k) + 1); ++r)
                axpy(scores.data()[t * R + size_t(r)], Zt.data() + size_t(r) * n, target, n);
        }
}

// see krylov::lanczos
int64_t lanczos(In2 S, double least, double tol, Out2 V, Out1 diagonal, Out1 beside, int64_t threads) {
    const size_t n = S.shape(0), most = V.shape(0);
    expect("S", S, {n, n});
    sizes::expect_rows("V", V);
    expect("V", V, {most, n});
    expect("diagonal", diagonal, {most});
    expect("beside", beside, {most});
    nb::gil_scoped_release free;
    return krylov::lanczos(S.data(), n, least, tol, V.data(), most, diagonal.data(), beside.data(), threads);
}

// K_ij = signal exp(-sum_c (z_ci - z_cj)^2) of columns Z (p, n), as a packed triangle, and in the upper triangle of a
// matrix with another diagonal
void covariance(In2 Z, double signal, In1 diagonal, Out1 packed, Out2 K, int64_t threads) {
    const size_t p = Z.shape(0), n = Z.shape(1);
    expect("diagonal", diagonal, {n});
    expect("packed", packed, {triangle(n)});
    expect("K", K, {n, n});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) {
        rows_of(part, n, [&](size_t i) {
            double distances[evidence::SEGMENT];
            double *own = packed.data() + row_start(i, n) - i, *row = K.data() + i * n;
            for (size_t first = i; first < n; first += evidence::SEGMENT) {
                const size_t last = std::min(first + evidence::SEGMENT, n);
                evidence::apart(Z.data(), p, n, i, first, last, distances);
                stacks::exponentials(distances, -1.0, last - first, own + first);
                for (size_t j = first; j < last; ++j) own[j] *= signal;
                std::copy(own + first, own + last, row + first);
            }
            row[i] = diagonal(i);
        });
    });
}

// sums[c] = sum_{i < j} m_ij (x_ci - x_cj)^2 of columns X (p, n), and sums[p] = sum_{i < j} m_ij, with
// m = k (A' A - T Q) for a packed k, A (T, n), and Q of which the upper triangle is read
void evidence_slopes(In2 X, In1 packed, In2 A, In2 Q, Out1 sums, int64_t threads) {
    const size_t p = X.shape(0), n = X.shape(1), T = A.shape(0);
    expect("packed", packed, {triangle(n)});
    expect("A", A, {T, n});
    expect("Q", Q, {n, n});
    expect("sums", sums, {p + 1});
    nb::gil_scoped_release free;
    std::vector<double> parts(PARTS * (p + 1), 0.0);
    in_parts(threads, [&](size_t part) {
        double* own = parts.data() + part * (p + 1);
        rows_of(part, n, [&](size_t i) {
            double m[evidence::SEGMENT];
            for (size_t first = i + 1; first < n; first += evidence::SEGMENT) {
                const size_t last = std::min(first + evidence::SEGMENT, n);
                own[p] += evidence::slopes(packed.data() + row_start(i, n) - i + first, Q.data() + i * n + first, A.data(), T, n, i,
                                           first, last, m);
                evidence::forms(X.data(), p, n, i, first, last, m, own);
            }
        });
    });
    for (size_t c = 0; c <= p; ++c) sums(c) = (parts[c] + parts[p + 1 + c]) + (parts[2 * (p + 1) + c] + parts[3 * (p + 1) + c]);
}

// Cholesky factor with one row appended or deleted, rows stored with a fixed leading dimension.
struct Factor {
    size_t ld;
    std::vector<double> L;
    std::vector<size_t> members;
    explicit Factor(size_t k) : ld(k), L(k * k) {}

    bool append(const double* h, size_t j, double floor) {  // h: H[j, :] over all variables
        const size_t k = members.size();
        double* row = L.data() + k * ld;
        for (size_t a = 0; a < k; ++a) {
            const double* other = L.data() + a * ld;
            row[a] = (h[members[a]] - dot(row, other, a)) / other[a];
        }
        const double rest = h[j] - dot(row, row, k);
        members.push_back(j);
        row[k] = std::sqrt(std::max(rest, floor));
        return rest > floor;
    }

    void remove(size_t position) {
        const size_t k = members.size();
        for (size_t a = position + 1; a < k; ++a)
            std::copy(L.data() + a * ld, L.data() + a * ld + a + 1, L.data() + (a - 1) * ld);
        members.erase(members.begin() + long(position));
        for (size_t a = position; a + 1 < k; ++a) {  // remove the superdiagonal by Givens rotations
            double* row = L.data() + a * ld;
            const double x = row[a], y = row[a + 1], r = std::hypot(x, y);
            const double c = x / r, s = y / r;
            row[a] = r;
            for (size_t b = a + 1; b + 1 < k; ++b) {
                double* other = L.data() + b * ld;
                const double p = other[a], q = other[a + 1];
                other[a] = c * p + s * q;
                other[a + 1] = -s * p + c * q;
            }
        }
    }

    void solve(std::vector<double>& v) const {
        const size_t k = members.size();
        for (size_t a = 0; a < k; ++a) v[a] = (v[a] - dot(L.data() + a * ld, v.data(), a)) / L[a * ld + a];
        for (size_t a = k; a-- > 0;) {
            v[a] /= L[a * ld + a];
            const double* row = L.data() + a * ld;
            const double s = v[a];
            for (size_t b = 0; b < a; ++b) v[b] -= s * row[b];
        }
    }
};

// min g'x + x'Hx/2 over the simplex by a primal active-set method; x is start and result. Returns the number of
// active-set changes, or -max_iter if it stopped there.
int64_t simplex_qp(In2 H, In1 g, Out1 x, double tol, int64_t max_iter) {
    const size_t k = g.shape(0);
    sizes::expect_rows("g", g);
    expect("H", H, {k, k});
    expect("x", x, {k});
    if (!std::any_of(x.data(), x.data() + k, [](double value) { return value > 0.0; }))
        sizes::refuse("`x` must hold a positive entry");
    nb::gil_scoped_release free;
    double largest = 0.0, scale = 0.0;
    for (size_t i = 0; i < k; ++i) {
        largest = std::max(largest, H(i, i));
        scale = std::max(scale, std::fabs(g(i)));
    }
    const double floor = 1e-14 * largest + 1e-300;
    Factor factor(k);
    std::vector<char> in(k, 0);
    for (size_t i = 0; i < k; ++i)
        if (x(i) > 0.0) { factor.append(H.data() + i * k, i, floor); in[i] = 1; }
    std::vector<double> a, b, grad(k);
    for (int64_t iter = 0; iter < max_iter; ++iter) {
        const size_t f = factor.members.size();
        if (f == 0) break;  // NaN in x, which no comparison sees
        a.assign(f, 1.0);
        b.resize(f);
        // the sum of x is fixed, so a shift of g does not change the solution; it saves digits where H is small beside g
        double least = g(factor.members[0]);
        for (size_t p = 1; p < f; ++p) least = std::min(least, g(factor.members[p]));
        factor.solve(a);
        double sa = 0.0, sb = 0.0, mean = 0.0;
        for (size_t p = 0; p < f; ++p) { sa += a[p]; mean += a[p] * (g(factor.members[p]) - least); }
        mean /= sa;
        for (size_t p = 0; p < f; ++p) b[p] = g(factor.members[p]) - least - mean;
        factor.solve(b);
        for (size_t p = 0; p < f; ++p) sb += b[p];
        const double rise = (1.0 + sb) / sa, level = rise + mean + least;
        double step = 1.0;
        size_t blocking = f;
        for (size_t p = 0; p < f; ++p) {
            a[p] = rise * a[p] - b[p];  // the equality-constrained minimiser
            const double now = x(factor.members[p]);
            if (a[p] < 0.0) {
                const double ratio = now / (now - a[p]);
                if (ratio < step || blocking == f) { step = std::min(ratio, step); blocking = p; }
            }
        }
        if (blocking < f) {
            for (size_t p = 0; p < f; ++p) {
                const size_t i = factor.members[p];
                x(i) = std::max(0.0, x(i) + step * (a[p] - x(i)));
            }
            x(factor.members[blocking]) = 0.0;
            in[factor.members[blocking]] = 0;
            factor.remove(blocking);
            continue;
        }
        for (size_t p = 0; p < f; ++p) x(factor.members[p]) = a[p];
        double worst = -tol * (scale + std::fabs(level));
        size_t enter = k;
        for (size_t i = 0; i < k; ++i) grad[i] = g(i);
        for (size_t p = 0; p < f; ++p) axpy(a[p], H.data() + factor.members[p] * k, grad.data(), k);
        for (size_t i = 0; i < k; ++i)
            if (!in[i] && grad[i] - level < worst) { worst = grad[i] - level; enter = i; }
        if (enter == k) return iter;
        factor.append(H.data() + enter * k, enter, floor);
        in[enter] = 1;
    }
    return -max_iter;
}

// Problem 7 in Gram form, min d'Gd/2 - b'd over the simplex, by two-coordinate descent: an inner loop on the
// support and the entering coordinate, an outer loop over all. d is start and result; returns the pair steps.
int64_t simplex_smo(In2 G, In1 b, Out1 d, double tol, int64_t max_inner, int64_t max_outer) {
    const size_t m = b.shape(0);
    expect("G", G, {m, m});
    expect("d", d, {m});
    nb::gil_scoped_release free;
    std::vector<double> grad(m, 0.0);
    for (size_t i = 0; i < m; ++i) grad[i] = -b(i);
    for (size_t i = 0; i < m; ++i)
        if (d(i) > 0.0) axpy(d(i), G.data() + i * m, grad.data(), m);
    int64_t steps = 0;
    std::vector<size_t> active;
    auto pair = [&](auto each) {
        size_t low = m, high = m;
        each([&](size_t k) {
            if (low == m || grad[k] < grad[low]) low = k;
            if (d(k) > 0.0 && (high == m || grad[k] > grad[high])) high = k;
        });
        if (low == m || high == m || grad[high] - grad[low] <= tol) return false;
        const double curvature = G(low, low) + G(high, high) - 2.0 * G(low, high);
        const double wanted = curvature > 0.0 ? (grad[high] - grad[low]) / curvature : d(high);
        const bool clipped = wanted >= d(high);
        const double step = clipped ? d(high) : wanted;
        d(low) += step;
        d(high) = clipped ? 0.0 : d(high) - step;
        axpy(step, G.data() + low * m, grad.data(), m);
        axpy(-step, G.data() + high * m, grad.data(), m);
        ++steps;
        return true;
    };
    for (int64_t outer = 0; outer < max_outer; ++outer) {
        if (!pair([&](auto visit) { for (size_t k = 0; k < m; ++k) visit(k); })) break;
        active.clear();
        for (size_t k = 0; k < m; ++k) if (d(k) > 0.0) active.push_back(k);
        for (int64_t inner = 0; inner < max_inner; ++inner)
            if (!pair([&](auto visit) { for (size_t k : active) visit(k); })) break;
    }
    return steps;
}

// One tile of K against the transposed one: max |a - b|, max |a| and |b|, and how many entries are not finite.
KW_CLONES void inspect_tile(const double* upper, const double* lower, size_t n, size_t rows, size_t columns,
                            double* worst, double* big, int64_t* bad) {
    constexpr size_t B = 32;
    double transposed[B * B];
    for (size_t j = 0; j < columns; ++j)
        for (size_t i = 0; i < rows; ++i) transposed[i * B + j] = lower[j * n + i];
    double w = *worst, m = *big;
    int64_t count = 0;
    for (size_t i = 0; i < rows; ++i) {
        const double* a = upper + i * n;
        const double* b = transposed + i * B;
#pragma omp simd reduction(max : w, m) reduction(+ : count)
        for (size_t j = 0; j < columns; ++j) {
            const double d = std::fabs(a[j] - b[j]), p = std::fabs(a[j]), q = std::fabs(b[j]);
            w = d > w ? d : w;
            m = p > m ? p : m;
            m = q > m ? q : m;
            uint64_t x, y;
            std::memcpy(&x, a + j, sizeof x);
            std::memcpy(&y, b + j, sizeof y);
            constexpr uint64_t exponent = 0x7ff0000000000000ULL;
            count += int64_t((x & exponent) == exponent) + int64_t((y & exponent) == exponent);
        }
    }
    *worst = w;
    *big = m;
    *bad += count;
}

// Reads every entry of K: returns max |K - K'|, max |K| and how many entries are not finite (those of the tiles on
// the diagonal are counted twice).
nb::tuple inspect(In2 K) {
    const size_t n = K.shape(0);
    expect("K", K, {n, n});
    double worst = 0.0, big = 0.0;
    int64_t bad = 0;
    {
        nb::gil_scoped_release free;
        const double* P = K.data();
        constexpr size_t B = 32;
        for (size_t i = 0; i < n; i += B)
            for (size_t j = i; j < n; j += B)
                inspect_tile(P + i * n + j, P + j * n + i, n, std::min(B, n - i), std::min(B, n - j), &worst, &big, &bad);
    }
    return nb::make_tuple(worst, big, bad);
}

// copies the upper triangle of K to the lower one, in blocks that fit a cache
void mirror(Out2 K, int64_t threads) {
    expect("K", K, {K.shape(0), K.shape(0)});
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) { mirror_tiles(K.data(), K.shape(0), part); });
}

// g += K w; only rows with w != 0 are read
void add_rows(In2 K, In1 w, Out1 g) {
    const size_t n = K.shape(0);
    expect("K", K, {n, n});
    expect("w", w, {n});
    expect("g", g, {n});
    nb::gil_scoped_release free;
    smo::add_rows(K.data(), K.shape(0), w.data(), g.data());
}

// out = K[rows][:, columns]
void block(In2 K, Index rows, Index columns, Out2 out) {
    const size_t width = columns.shape(0);
    sizes::expect_inside("rows", rows, K.shape(0));
    sizes::expect_inside("columns", columns, K.shape(1));
    expect("out", out, {rows.shape(0), width});
    nb::gil_scoped_release free;
    for (size_t a = 0; a < rows.shape(0); ++a) {
        const double* row = K.data() + size_t(rows(a)) * K.shape(1);
        for (size_t c = 0; c < width; ++c) out.data()[a * width + c] = row[columns(c)];
    }
}

// out = K w, summed in long double
void long_product(In2 K, In1 w, Out1 out) {
    const size_t n = K.shape(0);
    expect("K", K, {n, n});
    expect("w", w, {n});
    expect("out", out, {n});
    nb::gil_scoped_release free;
    smo::long_product(K.data(), K.shape(0), w.data(), out.data());
}

// see smo.hpp; returns (steps, violation, most negative relative curvature)
nb::tuple box_smo(In2 K, In1 ridge, In1 lo, In1 hi, double kink, Out1 b, Out1 g, double eps, int64_t max_steps,
                  bool shrink) {
    const size_t n = K.shape(0);
    expect("K", K, {n, n});
    expect("ridge", ridge, {n});
    expect("lo", lo, {n});
    expect("hi", hi, {n});
    expect("b", b, {n});
    expect("g", g, {n});
    smo::Report report;
    {
        nb::gil_scoped_release free;
        report = smo::solve(K.data(), n, ridge.data(), lo.data(), hi.data(), kink, b.data(), g.data(), eps,
                            max_steps, shrink);
    }
    return nb::make_tuple(report.steps, report.violation, report.curvature);
}

box::Machine box_machine(In1 linear, In1 ridge, In1 lo, In1 hi, double kink) {
    const size_t n = linear.shape(0);
    expect("ridge", ridge, {n});
    expect("lo", lo, {n});
    expect("hi", hi, {n});
    return {linear.data(), ridge.data(), lo.data(), hi.data(), kink, n};
}

double box_intercept(In1 linear, In1 ridge, In1 lo, In1 hi, double kink, In1 product) {
    const box::Machine machine = box_machine(linear, ridge, lo, hi, kink);
    expect("product", product, {machine.n});
    nb::gil_scoped_release free;
    return box::intercept(machine, product.data());
}

// see box.hpp; returns (objective, gap, intercept), at the intercept t or the best one
nb::tuple box_values(In1 linear, In1 ridge, In1 lo, In1 hi, double kink, In1 b, In1 product, double t, bool find) {
    const box::Machine machine = box_machine(linear, ridge, lo, hi, kink);
    expect("b", b, {machine.n});
    expect("product", product, {machine.n});
    box::Values found;
    double primal;
    {
        nb::gil_scoped_release free;
        if (find) t = box::intercept(machine, product.data());
        found = box::values(machine, b.data(), product.data(), t);
        primal = 0.5 * box::sum(machine.n, [&](size_t i) { return b.data()[i] * product.data()[i]; }) + found.loss;
    }
    return nb::make_tuple(primal, found.gap, t);
}

double box_rounding(In1 linear, In1 ridge, In1 lo, In1 hi, double kink, In1 b, In1 product, double t, In1 error,
                    double sums, bool fit_intercept) {
    const box::Machine machine = box_machine(linear, ridge, lo, hi, kink);
    expect("b", b, {machine.n});
    expect("product", product, {machine.n});
    expect("error", error, {machine.n});
    nb::gil_scoped_release free;
    return box::rounding(machine, b.data(), product.data(), t, error.data(), sums, fit_intercept);
}

nb::tuple look_of(const box::Found& at) {
    return nb::make_tuple(at.resolution, at.value, at.infeasibility, at.rounding, at.primal, at.gap, at.t);
}

// see box.hpp; b is snapped, and before a solution balanced and multiplied; product, error and g are results; returns the
// rounding error of a derivative, the value of the program, its infeasibility, and what box_rounding and box_values do
nb::tuple box_look(In1 linear, In1 ridge, In1 lo, In1 hi, double kink, In2 K, double total, double entry_error, bool before,
                   Out1 b, Out1 product, Out1 error, Out1 g) {
    const box::Machine machine = box_machine(linear, ridge, lo, hi, kink);
    expect("K", K, {machine.n, machine.n});
    expect("b", b, {machine.n});
    expect("product", product, {machine.n});
    expect("error", error, {machine.n});
    expect("g", g, {machine.n});
    box::Found at;
    {
        nb::gil_scoped_release free;
        if (before && total == 0.0) {
            box::balance(machine, b.data());
            box::multiply(machine, K.data(), b.data(), product.data());
        }
        at = box::look(machine, K.data(), total, entry_error, b.data(), product.data(), error.data(), g.data());
    }
    return look_of(at);
}

// see active_set.hpp; b and g change; returns (systems, whether they ended at a solution, whether LAPACK is needed)
nb::tuple box_newton(In1 linear, In1 ridge, In1 lo, In1 hi, double kink, In2 K, double total, Out1 b, Out1 g, double first,
                     double all, int64_t most_systems, int64_t most) {
    const box::Machine machine = box_machine(linear, ridge, lo, hi, kink);
    expect("K", K, {machine.n, machine.n});
    expect("b", b, {machine.n});
    expect("g", g, {machine.n});
    active::Report report;
    {
        nb::gil_scoped_release free;
        report = active::solve(K.data(), machine, total, b.data(), g.data(), first, all, most_systems, size_t(most));
    }
    return nb::make_tuple(report.systems, report.solved, report.left);
}

// see rounds.hpp; rows of out: where it is best (coefficients, product, error, gradient), and where it goes on (coefficients,
// gradient); returns how it ended, a last round that has no Newton steps yet, the work, what box_look does of the best place,
// and what to go on with
nb::tuple box_rounds(In1 linear, In1 ridge, In1 lo, In1 hi, double kink, In2 K, double entry_error, double tol, int64_t limit,
                     int64_t most, In1 start, Out2 out) {
    const box::Machine machine = box_machine(linear, ridge, lo, hi, kink);
    const size_t n = machine.n;
    expect("K", K, {n, n});
    expect("start", start, {n});
    expect("out", out, {6, n});
    rounds::Run run(machine, K.data(), entry_error, tol, limit, start.data());
    rounds::End end;
    {
        nb::gil_scoped_release free;
        run.begin();
        end = run.go(most);
        double* row = out.data();
        for (const auto* one : {&run.best.b, &run.best.product, &run.best.error, &run.best.g, &run.b, &run.g})
            row = std::copy(one->begin(), one->end(), row);
    }
    return nb::make_tuple(
        int(end), nb::make_tuple(run.reached, run.tried.systems, run.tried.left), run.spent, look_of(run.best.at),
        nb::make_tuple(run.warm, run.several, run.turns, run.steps, run.systems, run.idle, run.budget, run.work, run.eps,
                       run.resolution, run.value));
}

// out (k, k) = second derivatives in the weights of kernels with the products V (k, n); false, without a result, where more
// than `most` rows are free
bool box_curvature(In1 linear, In1 ridge, In1 lo, In1 hi, double kink, In2 K, In1 b, In2 V, bool fit_intercept, int64_t most,
                   Out2 out) {
    const box::Machine machine = box_machine(linear, ridge, lo, hi, kink);
    const size_t k = V.shape(0);
    expect("K", K, {machine.n, machine.n});
    expect("b", b, {machine.n});
    expect("V", V, {k, machine.n});
    expect("out", out, {k, k});
    nb::gil_scoped_release free;
    return active::curvature(K.data(), machine, b.data(), V.data(), k, fit_intercept, size_t(most), out.data());
}

// out (k,) = sum_ij H_ij K_m,ij of the packed kernels m in idx, from the upper triangle of the symmetric H
void inner(In2 packed, Index idx, In2 H, Out1 out, int64_t threads) {
    const size_t n = H.shape(0), L = triangle(n), k = idx.shape(0);
    expect("H", H, {n, n});
    expect("packed", packed, {packed.shape(0), L});
    sizes::expect_inside("idx", idx, packed.shape(0));
    expect("out", out, {k});
    nb::gil_scoped_release free;
    std::vector<double> totals(PARTS * k, 0.0);
    in_parts(threads, [&](size_t part) {
        std::vector<const double*> rows(k);
        std::vector<double> own(k, 0.0);
        rows_of(part, n, [&](size_t i) {
            const double* h = H.data() + i * n + i;
            for (size_t m = 0; m < k; ++m) rows[m] = packed.data() + size_t(idx(m)) * L + row_start(i, n);
            size_t m = 0;
            for (double sums[4]; m + 4 <= k; m += 4) {
                dot_four(rows.data() + m, h, n - i, sums);
                for (size_t s = 0; s < 4; ++s) own[m + s] += 2.0 * sums[s] - rows[m + s][0] * h[0];
            }
            for (; m < k; ++m) own[m] += 2.0 * dot(rows[m], h, n - i) - rows[m][0] * h[0];
        });
        std::copy(own.begin(), own.end(), totals.begin() + part * k);
    });
    for (size_t m = 0; m < k; ++m) {
        out(m) = 0.0;
        for (size_t part = 0; part < PARTS; ++part) out(m) += totals[part * k + m];
    }
}

// the functions of a layer on matrices of n rows
std::vector<layers::Function> layer_functions(Index kinds, In2 params, In1 weights, In2 roots, size_t n) {
    const size_t m = kinds.shape(0);
    sizes::expect_inside("kinds", kinds, layers::N_KINDS);
    expect("params", params, {m, 2});
    expect("weights", weights, {m});
    expect("roots", roots, {m, n});
    std::vector<layers::Function> functions;
    for (size_t m = 0; m < kinds.shape(0); ++m)
        functions.push_back({kinds(m), params(m, 0), params(m, 1), weights(m), roots.data() + m * roots.shape(1)});
    return functions;
}

// see layers.hpp; the diagonals of out and H are left to the caller
void layer_forward(In2 K, In1 kappa, Index kinds, In2 params, In1 weights, In2 roots, Out2 out, int64_t threads) {
    const size_t n = K.shape(0);
    expect("K", K, {n, n});
    expect("kappa", kappa, {n});
    expect("out", out, {n, n});
    const auto functions = layer_functions(kinds, params, weights, roots, n);
    nb::gil_scoped_release free;
    in_parts(threads, [&](size_t part) { layers::forward(K.data(), kappa.data(), functions, n, out.data(), part); });
}

// grad, along and across are filled; see layers::backward
void layer_backward(In2 K, In1 kappa, Index kinds, In2 params, In1 weights, In2 roots, Out2 H, Out1 grad, Out2 along,
                    Out1 across, int64_t threads) {
    const size_t n = K.shape(0), m = kinds.shape(0);
    expect("K", K, {n, n});
    expect("kappa", kappa, {n});
    expect("H", H, {n, n});
    expect("grad", grad, {m});
    expect("along", along, {m, n});
    expect("across", across, {n});
    const auto functions = layer_functions(kinds, params, weights, roots, n);
    nb::gil_scoped_release free;
    std::vector<layers::Sums> sums(PARTS, layers::Sums(m, n));
    in_parts(threads, [&](size_t part) {
        layers::backward(K.data(), kappa.data(), functions, n, H.data(), sums[part], part);
    });
    layers::Sums& total = sums[0];
    for (size_t part = 1; part < PARTS; ++part) total.add(sums[part]);
    std::copy(total.grad.begin(), total.grad.end(), grad.data());
    std::copy(total.along.begin(), total.along.end(), along.data());
    std::copy(total.across.begin(), total.across.end(), across.data());
}

using Float2 = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// out (V, p) = R (V, n) times the columns that come as rows of Zt (p, n); see columns.hpp
template <class Columns>
void column_products(Columns Zt, In2 R, Out2 out) {
    const size_t p = Zt.shape(0), n = Zt.shape(1), vectors = R.shape(0);
    expect("R", R, {vectors, n});
    expect("out", out, {vectors, p});
    nb::gil_scoped_release free;
    columns::products_of(Zt.data(), n, p, R.data(), vectors, out.data());
}

// out (V, n) = coef (V, k) times the rows of Zt (p, n) in index
template <class Columns>
void column_sums(Columns Zt, Index index, In2 coef, Out2 out) {
    const size_t p = Zt.shape(0), n = Zt.shape(1), vectors = coef.shape(0), count = index.shape(0);
    sizes::expect_inside("index", index, p);
    expect("coef", coef, {vectors, count});
    expect("out", out, {vectors, n});
    nb::gil_scoped_release free;
    std::fill(out.data(), out.data() + vectors * n, 0.0);
    columns::sums_of(Zt.data(), n, index.data(), count, coef.data(), vectors, out.data());
}

// out (V, k) = r_v' K r_v for Gaussian kernels of single columns, which come as rows of Xt (p, n); see gaussians.hpp.
// Kernel m has the column columns[m], within period / 2 of middles[m], and counts[m] waves.
template <class Columns>
void gaussian_quadratic_forms(Columns Xt, Index columns, In1 middles, In1 periods, Index counts, In1 gammas, In2 R, Out2 out) {
    const size_t p = Xt.shape(0), n = Xt.shape(1), k = columns.shape(0), vectors = R.shape(0);
    sizes::expect_inside("columns", columns, p);
    expect("middles", middles, {k});
    expect("periods", periods, {k});
    expect("counts", counts, {k});
    sizes::expect_inside("counts", counts, 1000000);
    expect("gammas", gammas, {k});
    expect("R", R, {vectors, n});
    expect("out", out, {vectors, k});
    size_t most = 0;
    for (size_t m = 0; m < k; ++m) most = std::max(most, size_t(counts(m)));
    nb::gil_scoped_release free;
    std::vector<double> sums(2 * (most + 1) * vectors);
    for (size_t m = 0; m < k; ++m)
        gaussians::form_of(Xt.data() + size_t(columns(m)) * n, n, middles(m), periods(m), size_t(counts(m)), gammas(m),
                           R.data(), vectors, sums.data(), out.data() + m, k);
}

// arrays of blocks as blocks.hpp takes them
blocks::Blocks as_blocks(Index offsets, Index chosen, In1 h, Out2 W, Out1 norms) {
    const size_t p = h.shape(0);
    sizes::expect_offsets("offsets", offsets, p);
    sizes::expect_inside("chosen", chosen, offsets.shape(0) - 1);
    expect("W", W, {W.shape(0), p});
    expect("norms", norms, {offsets.shape(0) - 1});
    return {offsets.data(), chosen.data(), chosen.shape(0), h.data(), p, W.shape(0), W.data(), norms.data()};
}

// see blocks.hpp; W, norms and R are changed; returns (sweeps, relative gap over the chosen blocks)
template <class Columns>
nb::tuple blocks_on_rows(Columns Zt, Index offsets, Index chosen, In1 h, In2 Y, Out2 W, Out1 norms, Out2 R, double alpha,
                         double aim, int64_t most) {
    blocks::Blocks b = as_blocks(offsets, chosen, h, W, norms);
    const size_t n = Zt.shape(1);
    expect("Zt", Zt, {b.p, n});
    expect("Y", Y, {b.T, n});
    expect("R", R, {b.T, n});
    blocks::Report report;
    {
        nb::gil_scoped_release free;
        report = blocks::on_rows(b, Zt.data(), n, Y.data(), R.data(), alpha, aim, most);
    }
    return nb::make_tuple(report.sweeps, report.left);
}

// see blocks.hpp; W, norms and G are changed, G only where blocks are chosen; returns as blocks_on_rows
template <class Products>
nb::tuple blocks_on_products(Products C, Index offsets, Index chosen, In1 h, In2 Q, double total, Out2 W, Out1 norms, Out2 G,
                             double alpha, double aim, int64_t most) {
    blocks::Blocks b = as_blocks(offsets, chosen, h, W, norms);
    expect("C", C, {b.p, b.p});
    expect("Q", Q, {b.T, b.p});
    expect("G", G, {b.T, b.p});
    blocks::Report report;
    {
        nb::gil_scoped_release free;
        report = blocks::on_products(b, C.data(), Q.data(), total, G.data(), alpha, aim, most);
    }
    return nb::make_tuple(report.sweeps, report.left);
}

// see blocks.hpp; W, norms, f and u are changed; returns as blocks_on_rows
template <class Columns>
nb::tuple blocks_on_weighted_rows(Columns X, Index offsets, Index chosen, In1 h, In2 turns, In1 means, In1 weight, In1 inverse,
                                  Out2 W, Out1 norms, Out1 f, Out1 u, double alpha, double aim, int64_t most) {
    blocks::Blocks b = as_blocks(offsets, chosen, h, W, norms);
    const size_t n = X.shape(1), widest = turns.shape(1);
    expect("X", X, {b.p, n});
    expect("W", W, {1, b.p});
    expect("turns", turns, {b.p, std::max(widest, b.widest())});
    expect("means", means, {b.p});
    expect("weight", weight, {n});
    expect("inverse", inverse, {n});
    expect("f", f, {n});
    expect("u", u, {n});
    blocks::Report report;
    {
        nb::gil_scoped_release free;
        report = blocks::on_weighted_rows(b, X.data(), n, turns.data(), widest, means.data(), weight.data(), inverse.data(),
                                          f.data(), u.data(), alpha, aim, most);
    }
    return nb::make_tuple(report.sweeps, report.left);
}

// lower triangles of X_m diag(weight) X_m' of the chosen blocks in rows of C (p, widest), and sums = X weight
template <class Columns>
void blocks_weighted_products(Columns X, Index offsets, Index chosen, In1 weight, Out2 C, Out1 sums) {
    const size_t p = X.shape(0), n = X.shape(1), widest = C.shape(1);
    sizes::expect_offsets("offsets", offsets, p);
    sizes::expect_inside("chosen", chosen, offsets.shape(0) - 1);
    expect("weight", weight, {n});
    expect("sums", sums, {p});
    size_t most = widest;
    for (size_t k = 0; k < chosen.shape(0); ++k)
        most = std::max(most, size_t(offsets(chosen(k) + 1) - offsets(chosen(k))));
    expect("C", C, {p, most});
    nb::gil_scoped_release free;
    for (size_t k = 0; k < chosen.shape(0); ++k) {
        const size_t first = size_t(offsets(chosen(k))), width = size_t(offsets(chosen(k) + 1)) - first;
        blocks::weighted_products(X.data() + first * n, n, width, weight.data(), C.data() + first * widest, widest,
                                  sums.data() + first);
    }
}

// R (T, n) = Y - Z W over the chosen blocks
template <class Columns>
void blocks_residual(Columns Zt, Index offsets, Index chosen, In2 Y, In2 W, Out2 R) {
    const size_t p = Zt.shape(0), n = Zt.shape(1), T = Y.shape(0);
    sizes::expect_offsets("offsets", offsets, p);
    sizes::expect_inside("chosen", chosen, offsets.shape(0) - 1);
    expect("Y", Y, {T, n});
    expect("W", W, {T, p});
    expect("R", R, {T, n});
    nb::gil_scoped_release free;
    std::copy(Y.data(), Y.data() + T * n, R.data());
    for (size_t k = 0; k < chosen.shape(0); ++k) {
        const size_t first = size_t(offsets(chosen(k))), width = size_t(offsets(chosen(k) + 1)) - first;
        for (size_t t = 0; t < T; ++t)
            blocks::subtract(Zt.data() + first * n, n, n, width, W.data() + t * p + first, R.data() + t * n);
    }
}

// see logistic.hpp
double logistic_intercept(In1 y, In1 costs, In1 product) {
    const size_t n = y.shape(0);
    expect("costs", costs, {n});
    expect("product", product, {n});
    nb::gil_scoped_release free;
    return logistic::intercept(y.data(), costs.data(), product.data(), n);
}

// b and h are results; returns the intercept and the value
nb::tuple logistic_expansion(In1 y, In1 costs, In1 product, bool fit_intercept, double flattest, double start, Out1 b, Out1 h) {
    const size_t n = y.shape(0);
    expect("costs", costs, {n});
    expect("product", product, {n});
    expect("b", b, {n});
    expect("h", h, {n});
    double value;
    {
        nb::gil_scoped_release free;
        value = logistic::expansion(y.data(), costs.data(), product.data(), n, fit_intercept, flattest, start, b.data(),
                                    h.data());
    }
    return nb::make_tuple(start, value);
}

double compensated_sum(In1 x) {
    const size_t n = x.shape(0);
    nb::gil_scoped_release free;
    return sums::compensated(x.data(), n);
}

double logistic_value(In1 y, In1 costs, In1 f) {
    const size_t n = y.shape(0);
    expect("costs", costs, {n});
    expect("f", f, {n});
    nb::gil_scoped_release free;
    return logistic::value(y.data(), costs.data(), f.data(), n);
}

double logistic_gap(In1 y, In1 costs, In1 b, In1 f) {
    const size_t n = y.shape(0);
    expect("costs", costs, {n});
    expect("b", b, {n});
    expect("f", f, {n});
    nb::gil_scoped_release free;
    return logistic::gap(y.data(), costs.data(), b.data(), f.data(), n);
}

}  // namespace

NB_MODULE(_core, module) {
    module.def("inside", &inside);
    module.def("quadratic_forms", &quadratic_forms, "packed"_a, "idx"_a, "C"_a, "out"_a, "threads"_a = 1);
    module.def("matvecs", &matvecs, "packed"_a, "idx"_a, "C"_a, "out"_a, "threads"_a = 1);
    module.def("combine", &combine, "packed"_a, "idx"_a, "w"_a, "out"_a, "threads"_a = 1);
    module.def("pack", &pack, "stack"_a, "packed"_a, "asym"_a, "size"_a, "bad"_a, "threads"_a = 1);
    module.def("definite", &definite, "packed"_a, "n_samples"_a, "shift"_a, "level"_a);
    module.def("choose_rows", &choose_rows, "packed"_a, "rows"_a, "n_samples"_a, "out"_a, "threads"_a = 1);
    module.def("shift_rows", &shift_rows, "packed"_a, "means"_a, "totals"_a, "threads"_a = 1);
    module.def("differences", &differences, "A"_a, "B"_a, "out"_a, "threads"_a = 1);
    module.def("decays", &decays, "D"_a, "first"_a, "gammas"_a, "packed"_a, "threads"_a = 1);
    module.def("decay_product", &decay_product, "D"_a, "gamma"_a, "C"_a, "out"_a, "threads"_a = 1);
    module.def("pivoted_cholesky", &pivoted_cholesky);
    module.def("pivoted_decay", &pivoted_decay);
    module.def("factor_matvecs", &factor_matvecs);
    module.def("lanczos", &lanczos, "S"_a, "least"_a, "tol"_a, "V"_a, "diagonal"_a, "beside"_a, "threads"_a = 1);
    module.def("covariance", &covariance, "Z"_a, "signal"_a, "diagonal"_a, "packed"_a, "K"_a, "threads"_a = 1);
    module.def("evidence_slopes", &evidence_slopes, "X"_a, "packed"_a, "A"_a, "Q"_a, "sums"_a, "threads"_a = 1);
    module.def("simplex_qp", &simplex_qp);
    module.def("simplex_smo", &simplex_smo);
    module.def("inspect", &inspect);
    module.def("mirror", &mirror, "K"_a, "threads"_a = 1);
    module.def("add_rows", &add_rows);
    module.def("block", &block);
    module.def("long_product", &long_product);
    module.def("box_smo", &box_smo);
    module.def("box_values", &box_values);
    module.def("box_intercept", &box_intercept);
    module.def("box_rounding", &box_rounding);
    module.def("box_look", &box_look);
    module.def("box_newton", &box_newton);
    module.def("box_rounds", &box_rounds);
    module.def("box_curvature", &box_curvature);
    module.def("logistic_intercept", &logistic_intercept);
    module.def("logistic_expansion", &logistic_expansion);
    module.def("compensated_sum", &compensated_sum);
    module.def("logistic_value", &logistic_value);
    module.def("logistic_gap", &logistic_gap);
    module.def("inner", &inner, "packed"_a, "idx"_a, "H"_a, "out"_a, "threads"_a = 1);
    module.def("layer_forward", &layer_forward, "K"_a, "kappa"_a, "kinds"_a, "params"_a, "weights"_a, "roots"_a, "out"_a,
               "threads"_a = 1);
    module.def("layer_backward", &layer_backward, "K"_a, "kappa"_a, "kinds"_a, "params"_a, "weights"_a, "roots"_a, "H"_a,
               "grad"_a, "along"_a, "across"_a, "threads"_a = 1);
    module.def("blocks_on_rows", &blocks_on_rows<In2>);
    module.def("blocks_on_rows", &blocks_on_rows<Float2>);
    module.def("blocks_on_products", &blocks_on_products<In2>);
    module.def("blocks_on_products", &blocks_on_products<Float2>);
    module.def("blocks_on_weighted_rows", &blocks_on_weighted_rows<In2>);
    module.def("blocks_on_weighted_rows", &blocks_on_weighted_rows<Float2>);
    module.def("blocks_weighted_products", &blocks_weighted_products<In2>);
    module.def("blocks_weighted_products", &blocks_weighted_products<Float2>);
    module.def("blocks_residual", &blocks_residual<In2>);
    module.def("blocks_residual", &blocks_residual<Float2>);
    module.def("column_products", &column_products<In2>);
    module.def("column_products", &column_products<Float2>);
    module.def("column_sums", &column_sums<In2>);
    module.def("column_sums", &column_sums<Float2>);
    module.def("gaussian_quadratic_forms", &gaussian_quadratic_forms<In2>);
    module.def("gaussian_quadratic_forms", &gaussian_quadratic_forms<Float2>);
    module.def("version", [] { return 1; });
}
