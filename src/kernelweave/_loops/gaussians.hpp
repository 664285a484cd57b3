// Quadratic forms of Gaussian kernels of single columns, by their Fourier series: for columns within an interval,
// exp(-gamma (x - z)^2) = sum_k a_k cos(2 pi k (x - z) / period), k = 0..count, to an accuracy that the caller knows, with
// a_0 = sqrt(pi / gamma) / period and a_k = 2 a_0 exp(-pi^2 k^2 / (gamma period^2)).

#pragma once

namespace gaussians {

// rows whose waves stay in the first cache
constexpr size_t TILE = 256;
constexpr double PI = 3.14159265358979323846;

// cos and sin of 4 t for |t| <= pi / 4: series of t, and twice the formulas for the double angle
template <class Number>
KW_INLINE void waves(const Number* x, double middle, double rate, size_t len, double* re, double* im) {
#pragma omp simd
    for (size_t i = 0; i < len; ++i) {
        const double t = (double(x[i]) - middle) * rate, s = t * t;
        const double sine =
            t * (1 - s * (1.0 / 6) * (1 - s * (1.0 / 20) * (1 - s * (1.0 / 42) * (1 - s * (1.0 / 72) *
            (1 - s * (1.0 / 110) * (1 - s * (1.0 / 156) * (1 - s * (1.0 / 210) * (1 - s * (1.0 / 272)))))))));
        const double cosine =
            1 - s * 0.5 * (1 - s * (1.0 / 12) * (1 - s * (1.0 / 30) * (1 - s * (1.0 / 56) * (1 - s * (1.0 / 90) *
            (1 - s * (1.0 / 132) * (1 - s * (1.0 / 182) * (1 - s * (1.0 / 240))))))));
        const double sine2 = 2 * sine * cosine, cosine2 = 1 - 2 * sine * sine;
        im[i] = 2 * sine2 * cosine2;
        re[i] = 1 - 2 * sine2 * sine2;
    }
}

// sums (2 per vector) += products of a tile of waves with all vectors
KW_INLINE void products(const double* re, const double* im, const double* R, size_t stride, size_t vectors, size_t len,
                        double* sums) {
    size_t v = 0;
    for (; v + 4 <= vectors; v += 4) {
        const double *q = R + v * stride, *r = q + stride, *s = r + stride, *t = s + stride;
        double aq = 0, ar = 0, as = 0, at = 0, bq = 0, br = 0, bs = 0, bt = 0;
#pragma omp simd reduction(+ : aq, ar, as, at, bq, br, bs, bt)
        for (size_t i = 0; i < len; ++i) {
            const double a = re[i], b = im[i];
            aq += a * q[i], ar += a * r[i], as += a * s[i], at += a * t[i];
            bq += b * q[i], br += b * r[i], bs += b * s[i], bt += b * t[i];
        }
        double* o = sums + 2 * v;
        o[0] += aq, o[1] += bq, o[2] += ar, o[3] += br, o[4] += as, o[5] += bs, o[6] += at, o[7] += bt;
    }
    for (; v < vectors; ++v) {
        const double* q = R + v * stride;
        double a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
        for (size_t i = 0; i < len; ++i) a += re[i] * q[i], b += im[i] * q[i];
        sums[2 * v] += a, sums[2 * v + 1] += b;
    }
}

// out[v * stride] = r_v' K r_v for one column x; `sums` has room for 2 (count + 1) vectors numbers
template <class Number>
KW_INLINE void form(const Number* x, size_t n, double middle, double period, size_t count, double gamma, const double* R,
                    size_t vectors, double* sums, double* out, size_t stride) {
    alignas(64) double zr[TILE], zi[TILE], pr[TILE], pi[TILE];
    const size_t each = 2 * vectors;
    std::fill(sums, sums + (count + 1) * each, 0.0);
    for (size_t from = 0; from < n; from += TILE) {
        const size_t len = std::min(TILE, n - from);
        waves(x + from, middle, 0.5 * PI / period, len, zr, zi);
        for (size_t i = 0; i < len; ++i) pr[i] = 1.0, pi[i] = 0.0;
        products(pr, pi, R + from, n, vectors, len, sums);
        std::copy(zr, zr + len, pr);
        std::copy(zi, zi + len, pi);
        for (size_t k = 1; k <= count; ++k) {
            products(pr, pi, R + from, n, vectors, len, sums + k * each);
            if (k == count) break;
#pragma omp simd
            for (size_t i = 0; i < len; ++i) {
                const double a = pr[i] * zr[i] - pi[i] * zi[i], b = pr[i] * zi[i] + pi[i] * zr[i];
                pr[i] = a, pi[i] = b;
            }
        }
    }
    const double first = std::sqrt(PI / gamma) / period, decay = PI * PI / (gamma * period * period);
    for (size_t v = 0; v < vectors; ++v) out[v * stride] = 0.0;
    for (size_t k = 0; k <= count; ++k) {
        const double weight = (k ? 2.0 : 1.0) * first * std::exp(-decay * double(k) * double(k));
        for (size_t v = 0; v < vectors; ++v) {
            const double a = sums[k * each + 2 * v], b = sums[k * each + 2 * v + 1];
            out[v * stride] += weight * (a * a + b * b);
        }
    }
}

KW_CLONES void form_of(const double* x, size_t n, double middle, double period, size_t count, double gamma,
                       const double* R, size_t vectors, double* sums, double* out, size_t stride) {
    form(x, n, middle, period, count, gamma, R, vectors, sums, out, stride);
}
KW_CLONES void form_of(const float* x, size_t n, double middle, double period, size_t count, double gamma,
                       const double* R, size_t vectors, double* sums, double* out, size_t stride) {
    form(x, n, middle, period, count, gamma, R, vectors, sums, out, stride);
}

}  // namespace gaussians
