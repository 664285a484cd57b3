// Products of many columns with a few vectors, and sums of columns: each column is read once for all vectors, in single or
// double precision, with sums in double precision. Matrix products of BLAS copy the columns first.

#pragma once

// inlined into each clone of the functions below, so that it is compiled for their instructions
#if defined(__GNUC__)
#define KW_INLINE inline __attribute__((always_inline))
#else
#define KW_INLINE inline
#endif

namespace columns {

// out[v * stride + c] = z_c' r_v for four columns and all vectors
template <class Number>
KW_INLINE void four(const Number* Z, size_t n, const double* R, size_t vectors, double* out,
                                                size_t stride) {
    const Number *a = Z, *b = a + n, *c = b + n, *d = c + n;
    size_t v = 0;
    for (; v + 4 <= vectors; v += 4) {
        const double *q = R + v * n, *r = q + n, *s = r + n, *t = s + n;
        double aq = 0, ar = 0, as = 0, at = 0, bq = 0, br = 0, bs = 0, bt = 0;
        double cq = 0, cr = 0, cs = 0, ct = 0, dq = 0, dr = 0, ds = 0, dt = 0;
#pragma omp simd reduction(+ : aq, ar, as, at, bq, br, bs, bt, cq, cr, cs, ct, dq, dr, ds, dt)
        for (size_t k = 0; k < n; ++k) {
            const double w = a[k], x = b[k], y = c[k], z = d[k], e = q[k], f = r[k], g = s[k], h = t[k];
            aq += w * e, ar += w * f, as += w * g, at += w * h;
            bq += x * e, br += x * f, bs += x * g, bt += x * h;
            cq += y * e, cr += y * f, cs += y * g, ct += y * h;
            dq += z * e, dr += z * f, ds += z * g, dt += z * h;
        }
        double* o = out + v * stride;
        o[0] = aq, o[1] = bq, o[2] = cq, o[3] = dq, o += stride;
        o[0] = ar, o[1] = br, o[2] = cr, o[3] = dr, o += stride;
        o[0] = as, o[1] = bs, o[2] = cs, o[3] = ds, o += stride;
        o[0] = at, o[1] = bt, o[2] = ct, o[3] = dt;
    }
    for (; v < vectors; ++v) {
        const double* q = R + v * n;
        double aq = 0, bq = 0, cq = 0, dq = 0;
#pragma omp simd reduction(+ : aq, bq, cq, dq)
        for (size_t k = 0; k < n; ++k) {
            const double e = q[k];
            aq += a[k] * e, bq += b[k] * e, cq += c[k] * e, dq += d[k] * e;
        }
        double* o = out + v * stride;
        o[0] = aq, o[1] = bq, o[2] = cq, o[3] = dq;
    }
}

template <class Number>
KW_INLINE void products(const Number* Z, size_t n, size_t p, const double* R, size_t vectors,
                                                    double* out) {
    size_t j = 0;
    for (; j + 4 <= p; j += 4) four(Z + j * n, n, R, vectors, out + j, p);
    for (; j < p; ++j)
        for (size_t v = 0; v < vectors; ++v) {
            double sum = 0.0;
#pragma omp simd reduction(+ : sum)
            for (size_t k = 0; k < n; ++k) sum += double(Z[j * n + k]) * R[v * n + k];
            out[v * p + j] = sum;
        }
}

// out (vectors, n) += coef (vectors, count) times the chosen columns, in pieces of rows that stay in a cache
template <class Number>
KW_INLINE void sums(const Number* Z, size_t n, const int64_t* index, size_t count,
                                                const double* coef, size_t vectors, double* out) {
    constexpr size_t PIECE = 1024;
    for (size_t from = 0; from < n; from += PIECE) {
        const size_t length = std::min(PIECE, n - from);
        size_t i = 0;
        for (; i + 4 <= count; i += 4) {
            const Number *a = Z + size_t(index[i]) * n + from, *b = Z + size_t(index[i + 1]) * n + from;
            const Number *c = Z + size_t(index[i + 2]) * n + from, *d = Z + size_t(index[i + 3]) * n + from;
            for (size_t v = 0; v < vectors; ++v) {
                const double* w = coef + v * count + i;
                const double wa = w[0], wb = w[1], wc = w[2], wd = w[3];
                double* o = out + v * n + from;
#pragma omp simd
                for (size_t k = 0; k < length; ++k) o[k] += wa * a[k] + wb * b[k] + wc * c[k] + wd * d[k];
            }
        }
        for (; i < count; ++i) {
            const Number* a = Z + size_t(index[i]) * n + from;
            for (size_t v = 0; v < vectors; ++v) {
                const double w = coef[v * count + i];
                double* o = out + v * n + from;
#pragma omp simd
                for (size_t k = 0; k < length; ++k) o[k] += w * a[k];
            }
        }
    }
}

KW_CLONES void products_of(const double* Z, size_t n, size_t p, const double* R, size_t vectors, double* out) {
    products(Z, n, p, R, vectors, out);
}
KW_CLONES void products_of(const float* Z, size_t n, size_t p, const double* R, size_t vectors, double* out) {
    products(Z, n, p, R, vectors, out);
}
KW_CLONES void sums_of(const double* Z, size_t n, const int64_t* index, size_t count, const double* coef, size_t vectors,
                       double* out) {
    sums(Z, n, index, count, coef, vectors, out);
}
KW_CLONES void sums_of(const float* Z, size_t n, const int64_t* index, size_t count, const double* coef, size_t vectors,
                       double* out) {
    sums(Z, n, index, count, coef, vectors, out);
}

}  // namespace columns
