// The covariance of a Gaussian process with a rate for each column, and the slopes of its evidence; columns X (p, n).

namespace evidence {

constexpr size_t SEGMENT = 512;

// out[j] = sum over columns of (z_j - z_i)^2, from j = first to last
KW_CLONES void apart(const double* Z, size_t p, size_t n, size_t i, size_t first, size_t last, double* out) {
    for (size_t j = first; j < last; ++j) out[j - first] = 0.0;
    size_t c = 0;
    for (; c + 4 <= p; c += 4) {
        const double *w = Z + c * n, *x = w + n, *y = x + n, *z = y + n;
        const double wi = w[i], xi = x[i], yi = y[i], zi = z[i];
#pragma omp simd
        for (size_t j = first; j < last; ++j) {
            const double dw = w[j] - wi, dx = x[j] - xi, dy = y[j] - yi, dz = z[j] - zi;
            out[j - first] += dw * dw + dx * dx + dy * dy + dz * dz;
        }
    }
    for (; c < p; ++c) {
        const double* w = Z + c * n;
        const double wi = w[i];
#pragma omp simd
        for (size_t j = first; j < last; ++j) out[j - first] += (w[j] - wi) * (w[j] - wi);
    }
}

// sums[c] += sum_j m_j (x_cj - x_ci)^2 for every column
KW_CLONES void forms(const double* X, size_t p, size_t n, size_t i, size_t first, size_t last, const double* m, double* sums) {
    size_t c = 0;
    for (; c + 4 <= p; c += 4) {
        const double *w = X + c * n, *x = w + n, *y = x + n, *z = y + n;
        const double wi = w[i], xi = x[i], yi = y[i], zi = z[i];
        double tw = 0, tx = 0, ty = 0, tz = 0;
#pragma omp simd reduction(+ : tw, tx, ty, tz)
        for (size_t j = first; j < last; ++j) {
            const double v = m[j - first], dw = w[j] - wi, dx = x[j] - xi, dy = y[j] - yi, dz = z[j] - zi;
            tw += v * dw * dw, tx += v * dx * dx, ty += v * dy * dy, tz += v * dz * dz;
        }
        sums[c] += tw, sums[c + 1] += tx, sums[c + 2] += ty, sums[c + 3] += tz;
    }
    for (; c < p; ++c) {
        const double* w = X + c * n;
        const double wi = w[i];
        double total = 0;
#pragma omp simd reduction(+ : total)
        for (size_t j = first; j < last; ++j) total += m[j - first] * (w[j] - wi) * (w[j] - wi);
        sums[c] += total;
    }
}

// m_j = k_j (sum_t A_ti A_tj - T Q_ij), and their sum; k and Q from column `first` on
KW_CLONES double slopes(const double* k, const double* Q, const double* A, size_t T, size_t n, size_t i, size_t first, size_t last,
                        double* m) {
    const double outputs = double(T);
#pragma omp simd
    for (size_t j = first; j < last; ++j) m[j - first] = -outputs * Q[j - first];
    for (size_t t = 0; t < T; ++t) axpy(A[t * n + i], A + t * n + first, m, last - first);
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (size_t j = first; j < last; ++j) {
        m[j - first] *= k[j - first];
        total += m[j - first];
    }
    return total;
}

}  // namespace evidence
