// Lanczos' method on a symmetric matrix, of which the upper triangle is read, with orthogonalisation against all vectors.

namespace krylov {

// out += rows i to i + 3 of the triangle times c, and their mirror images
KW_CLONES void four_rows(const double* S, size_t n, size_t i, const double* c, double* out) {
    const double *p = S + i * n, *q = p + n, *r = q + n, *s = r + n;
    const double cp = c[i], cq = c[i + 1], cr = c[i + 2], cs = c[i + 3];
    double tp = p[i] * cp + p[i + 1] * cq + p[i + 2] * cr + p[i + 3] * cs;
    double tq = p[i + 1] * cp + q[i + 1] * cq + q[i + 2] * cr + q[i + 3] * cs;
    double tr = p[i + 2] * cp + q[i + 2] * cq + r[i + 2] * cr + r[i + 3] * cs;
    double ts = p[i + 3] * cp + q[i + 3] * cq + r[i + 3] * cr + s[i + 3] * cs;
#pragma omp simd reduction(+ : tp, tq, tr, ts)
    for (size_t j = i + 4; j < n; ++j) {
        const double x = c[j];
        tp += p[j] * x, tq += q[j] * x, tr += r[j] * x, ts += s[j] * x;
        out[j] += cp * p[j] + cq * q[j] + cr * r[j] + cs * s[j];
    }
    out[i] += tp, out[i + 1] += tq, out[i + 2] += tr, out[i + 3] += ts;
}

inline void row(const double* S, size_t n, size_t i, const double* c, double* out) {
    const double* p = S + i * n;
    out[i] += p[i] * c[i] + dot(p + i + 1, c + i + 1, n - i - 1);
    axpy(c[i], p + i + 1, out + i + 1, n - i - 1);
}

// out = S c; `sums` has room for PARTS vectors
inline void multiply(const double* S, size_t n, const double* c, double* sums, double* out, int64_t threads) {
    in_parts(threads, [&](size_t part) {
        double* own = sums + part * n;
        std::fill(own, own + n, 0.0);
        for (size_t start = part * BLOCK; start < n; start += PARTS * BLOCK) {
            size_t i = start;
            for (; i + 4 <= std::min(start + BLOCK, n); i += 4) four_rows(S, n, i, c, own);
            for (; i < std::min(start + BLOCK, n); ++i) row(S, n, i, c, own);
        }
    });
    std::copy(sums, sums + n, out);
    for (size_t part = 1; part < PARTS; ++part) axpy(1.0, sums + part * n, out, n);
}

// u -= V' V u, of the first m rows of V
inline void project(const double* V, size_t n, size_t m, double* u, double* along, std::vector<const double*>& rows) {
    size_t k = 0;
    for (; k + 4 <= m; k += 4) dot_four(rows.data() + k, u, n, along + k);
    for (; k < m; ++k) along[k] = dot(rows[k], u, n);
    for (k = 0; k < m; ++k) along[k] = -along[k];
    combine_row(rows.data(), along, m, u, n);
}

// Vectors V (most, n) and T, given by its diagonal and what is beside it, with S V' = V' T + u e': of V the first row is
// given, with length 1. Ends when the residual of (S + least I) x = V[0] is at most tol; returns how many vectors there
// are, or minus this where it is not reached.
inline int64_t lanczos(const double* S, size_t n, double least, double tol, double* V, size_t most, double* diagonal,
                       double* beside, int64_t threads) {
    std::vector<double> sums(PARTS * n), u(n), along(most);
    std::vector<const double*> rows(most);
    double pivot = 1.0, last = 1.0;
    for (size_t m = 0; m < most; ++m) {
        double* v = V + m * n;
        rows[m] = v;
        if (m)
            for (size_t i = 0; i < n; ++i) v[i] = u[i] / beside[m - 1];
        multiply(S, n, v, sums.data(), u.data(), threads);
        diagonal[m] = dot(v, u.data(), n);
        axpy(-diagonal[m], v, u.data(), n);
        if (m) axpy(-beside[m - 1], v - n, u.data(), n);
        project(V, n, m + 1, u.data(), along.data(), rows);
        beside[m] = std::sqrt(dot(u.data(), u.data(), n));
        // the last entry of the solution in this space, by elimination
        if (m) last *= -beside[m - 1] / pivot;
        pivot = diagonal[m] + least - (m ? beside[m - 1] * beside[m - 1] / pivot : 0.0);
        if (!(pivot > 0.0)) return -int64_t(m + 1);
        if (beside[m] * std::fabs(last / pivot) <= tol) return int64_t(m + 1);
    }
    return -int64_t(most);
}

}  // namespace krylov
