// Layers of kernels on the upper triangles of square matrices; see functions.py and mkl/layers.py, the oracle.
//
// A layer maps a kernel K with diagonal kappa to sum_k w_k phi_k(K_ij, kappa_i, kappa_j) r_ki r_kj, where r_k are the
// inverse roots of phi_k on the diagonal (cosine normalisation) or ones. Rows are processed in segments that fit in the
// first-level cache, so that each matrix is read or written once, whatever the number of functions.

namespace layers {

enum Kind : int64_t { identity = 0, power = 1, gaussian = 2, arc_cosine = 3, exponential = 4 };
constexpr size_t N_KINDS = 5;

constexpr size_t SEGMENT = 512;
constexpr double PI = 3.14159265358979323846;

// exp to about one unit in the last place, in a form that compilers vectorise; 0 below -708. The polynomial
// interpolates (exp(r) - 1 - r) / r^2 at ten Chebyshev nodes of |r| <= log(2) / 2: its own error is 2e-17. Above `most` it
// is constant: squared distances between large values may be rounded to negative numbers.
inline double fast_exp(double x, double most = 709.0) {
    constexpr double shift = 0x1.8p52;
    const double at = x < -708.0 ? -708.0 : (x > most ? most : x);
    const double rounded = at * 1.4426950408889634074 + shift;
    const double n = rounded - shift;
    const double r = (at - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;
    double p = 2.510038549551032e-08;
    p = p * r + 2.7620088445409746e-07;
    p = p * r + 2.7557268459997064e-06;
    p = p * r + 2.4801521295954376e-05;
    p = p * r + 0.00019841269863053618;
    p = p * r + 0.0013888888917213717;
    p = p * r + 0.008333333333330062;
    p = p * r + 0.04166666666662413;
    p = p * r + 0.16666666666666669;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    int64_t bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    bits = int64_t(uint64_t(bits + 1023) << 52);
    double scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return x < -708.0 ? 0.0 : p * scale;
}

inline double whole_power(double x, int64_t degree) {
    double out = 1.0;
    for (int64_t d = 0; d < degree; ++d) out *= x;
    return out;
}

struct Function {
    int64_t kind;
    double first, second;  // degree and coef0, gamma, degree
    double weight;
    const double* root;  // inverse roots of the diagonal, (n,)
};

// J_degree / pi and its derivative at a cosine
inline void angle(int64_t degree, double cosine, double* value, double* slope) {
    const double c = cosine < -1.0 ? -1.0 : (cosine > 1.0 ? 1.0 : cosine);
    const double theta = std::acos(c), rest = PI - theta, sine = std::sqrt((1.0 - c) * (1.0 + c));
    if (degree == 0) {
        *value = rest / PI;
        // parallel rows have no derivative; the angle does not change there when both are scaled
        *slope = sine > 0.0 ? 1.0 / (PI * sine) : 0.0;
    } else if (degree == 1) {
        *value = (sine + rest * c) / PI;
        *slope = rest / PI;
    } else {
        *value = (3.0 * sine * c + rest * (1.0 + 2.0 * c * c)) / PI;
        *slope = 4.0 * (sine + rest * c) / PI;
    }
}

// values of one function on a segment of row i
KW_CLONES void values(const Function& f, const double* k, double ki, const double* kj, size_t len, double* out) {
    switch (f.kind) {
        case identity:
            std::copy(k, k + len, out);
            break;
        case power: {
            const int64_t degree = int64_t(f.first);
            const double c = f.second;
            if (degree == 2) {
#pragma omp simd
                for (size_t j = 0; j < len; ++j) out[j] = (k[j] + c) * (k[j] + c);
            } else if (degree == 3) {
#pragma omp simd
                for (size_t j = 0; j < len; ++j) out[j] = (k[j] + c) * (k[j] + c) * (k[j] + c);
            } else {
                for (size_t j = 0; j < len; ++j) out[j] = whole_power(k[j] + c, degree);
            }
            break;
        }
        case gaussian: {
            const double g = f.first;
#pragma omp simd
            for (size_t j = 0; j < len; ++j) out[j] = fast_exp(g * ((k[j] - ki) + (k[j] - kj[j])), 0.0);
            break;
        }
        case exponential:
#pragma omp simd
            for (size_t j = 0; j < len; ++j) out[j] = fast_exp(k[j]);
            break;
        default: {
            const int64_t degree = int64_t(f.first);
            for (size_t j = 0; j < len; ++j) {
                const double square = ki * kj[j];
                const double norm = std::sqrt(square);
                double value, slope;
                angle(degree, norm > 0.0 ? k[j] / norm : 0.0, &value, &slope);
                out[j] = degree == 0 ? value : (degree == 1 ? norm : square) * value;
            }
        }
    }
}

// out += a * root * function, in one loop where the function is simple
KW_CLONES void add(const Function& f, const double* k, double ki, const double* kj, size_t len, double a, const double* root,
                   double* out, double* u) {
    const int64_t degree = f.kind == power ? int64_t(f.first) : 0;
    const double c = f.second, g = f.first;
    if (f.kind == identity) {
#pragma omp simd
        for (size_t j = 0; j < len; ++j) out[j] += a * root[j] * k[j];
    } else if (degree == 2) {
#pragma omp simd
        for (size_t j = 0; j < len; ++j) out[j] += a * root[j] * (k[j] + c) * (k[j] + c);
    } else if (degree == 3) {
#pragma omp simd
        for (size_t j = 0; j < len; ++j) out[j] += a * root[j] * (k[j] + c) * (k[j] + c) * (k[j] + c);
    } else if (f.kind == gaussian) {
#pragma omp simd
        for (size_t j = 0; j < len; ++j) out[j] += a * root[j] * fast_exp(g * ((k[j] - ki) + (k[j] - kj[j])), 0.0);
    } else {
        values(f, k, ki, kj, len, u);
#pragma omp simd
        for (size_t j = 0; j < len; ++j) out[j] += a * root[j] * u[j];
    }
}

// The functions of the paper (linear, Gaussian, square, cube), one of each, in this order: one loop for all.
inline bool is_paper(const std::vector<Function>& f) {
    return f.size() == 4 && f[0].kind == identity && f[1].kind == gaussian && f[2].kind == power && f[2].first == 2.0 &&
           f[3].kind == power && f[3].first == 3.0;
}

KW_CLONES void paper_forward(const Function* f, const double* k, double ki, const double* kj, size_t i, size_t start, size_t len,
                             double* out) {
    const double a = f[0].weight * f[0].root[i], b = f[1].weight * f[1].root[i], c = f[2].weight * f[2].root[i],
                 d = f[3].weight * f[3].root[i];
    const double *ra = f[0].root + start, *rb = f[1].root + start, *rc = f[2].root + start, *rd = f[3].root + start;
    const double g = f[1].first, s = f[2].second, t = f[3].second;
#pragma omp simd
    for (size_t j = 0; j < len; ++j) {
        const double x = k[j] + s, y = k[j] + t;
        out[j] = a * ra[j] * k[j] + b * rb[j] * fast_exp(g * ((k[j] - ki) + (k[j] - kj[j])), 0.0) + c * rc[j] * x * x +
                 d * rd[j] * y * y * y;
    }
}

// h, along (4, n) and grad (4,) as in `backward`
KW_CLONES void paper_backward(const Function* f, const double* k, double ki, const double* kj, size_t i, size_t start, size_t len,
                              size_t n, double* h, double* grad, double* along) {
    const double *ra = f[0].root + start, *rb = f[1].root + start, *rc = f[2].root + start, *rd = f[3].root + start;
    const double ia = f[0].root[i], ib = f[1].root[i], ic = f[2].root[i], id = f[3].root[i];
    const double g = f[1].first, s = f[2].second, t = f[3].second;
    const double wa = f[0].weight, wb = 2.0 * g * f[1].weight, wc = 2.0 * f[2].weight, wd = 3.0 * f[3].weight;
    double *ca = along + start, *cb = ca + n, *cc = cb + n, *cd = cc + n;
    const double va = wa * ia, vb = wb * ib, vc = wc * ic, vd = wd * id;
    double ta = 0.0, tb = 0.0, tc = 0.0, td = 0.0;
#pragma omp simd reduction(+ : ta, tb, tc, td)
    for (size_t j = 0; j < len; ++j) {
        const double x = k[j] + s, y = k[j] + t, hj = h[j];
        const double e = fast_exp(g * ((k[j] - ki) + (k[j] - kj[j])), 0.0);
        const double la = hj * ra[j], lb = hj * rb[j] * e, lc = hj * rc[j] * x, ld = hj * rd[j] * y * y;
        const double pa = la * k[j], pc = lc * x, pd = ld * y;
        h[j] = va * la + vb * lb + vc * lc + vd * ld;
        ca[j] += ia * pa;
        cb[j] += ib * lb;
        cc[j] += ic * pc;
        cd[j] += id * pd;
        ta += pa;
        tb += lb;
        tc += pc;
        td += pd;
    }
    ta *= ia, tb *= ib, tc *= ic, td *= id;
    const double totals[4] = {ta, tb, tc, td};
    for (size_t m = 0; m < 4; ++m) {
        along[m * n + i] += totals[m];
        grad[m] += totals[m];
    }
}

// one part of the rows of the upper triangle of out, without the diagonal
inline void forward(const double* K, const double* kappa, const std::vector<Function>& functions, size_t n, double* out,
                    size_t part) {
    double u[SEGMENT];
    const bool paper = is_paper(functions);
    rows_of(part, n, [&](size_t i) {
        for (size_t start = i + 1; start < n; start += SEGMENT) {
            const size_t len = std::min(SEGMENT, n - start);
            double* target = out + i * n + start;
            if (paper) {
                paper_forward(functions.data(), K + i * n + start, kappa[i], kappa + start, i, start, len, target);
                continue;
            }
            std::fill(target, target + len, 0.0);
            for (const Function& f : functions)
                if (f.weight != 0.0)
                    add(f, K + i * n + start, kappa[i], kappa + start, len, f.weight * f.root[i], f.root + start, target, u);
        }
    });
}

// With p = h * normalised value: returns the sum of p over the row, adds p to the sums of the columns, and
// weight * h * d value / d K to q, in one loop.
KW_CLONES double simple(const Function& f, double ri, const double* root, const double* h, const double* k, double ki,
                        const double* kj, size_t len, double* columns, double* q) {
    const double c = f.second, w = f.weight, g = f.first;
    double total = 0.0;
    if (f.kind == identity) {
#pragma omp simd reduction(+ : total)
        for (size_t j = 0; j < len; ++j) {
            const double t = ri * root[j] * h[j], p = t * k[j];
            q[j] += w * t;
            columns[j] += p;
            total += p;
        }
    } else if (f.kind == gaussian) {
        const double twice = 2.0 * w * g;
#pragma omp simd reduction(+ : total)
        for (size_t j = 0; j < len; ++j) {
            const double p = ri * root[j] * h[j] * fast_exp(g * ((k[j] - ki) + (k[j] - kj[j])), 0.0);
            q[j] += twice * p;
            columns[j] += p;
            total += p;
        }
    } else if (g == 2.0) {
        const double twice = 2.0 * w;
#pragma omp simd reduction(+ : total)
        for (size_t j = 0; j < len; ++j) {
            const double x = k[j] + c, t = ri * root[j] * h[j] * x, p = t * x;
            q[j] += twice * t;
            columns[j] += p;
            total += p;
        }
    } else {
        const double thrice = 3.0 * w;
#pragma omp simd reduction(+ : total)
        for (size_t j = 0; j < len; ++j) {
            const double x = k[j] + c, t = ri * root[j] * h[j] * x * x, p = t * x;
            q[j] += thrice * t;
            columns[j] += p;
            total += p;
        }
    }
    return total;
}

inline bool is_simple(const Function& f) {
    return f.kind == identity || f.kind == gaussian || (f.kind == power && (f.first == 2.0 || f.first == 3.0));
}

// other functions, first step: p and its sums; g becomes the derivative by the value before normalisation
KW_CLONES double weigh(double ri, const double* h, const double* u, const double* root, size_t len, double* g,
                        double* columns) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (size_t j = 0; j < len; ++j) {
        g[j] = ri * root[j] * h[j];
        const double p = g[j] * u[j];
        columns[j] += p;
        total += p;
    }
    return total;
}

// other functions, second step (chain rule): adds weight * g * d value / d K to q, and the derivatives by the two
// diagonals to their sums
KW_CLONES void chain(const Function& f, const double* k, double ki, const double* kj, const double* u, const double* g,
                    size_t len, double* q, double* row, double* columns) {
    const double w = f.weight;
    if (f.kind == power) {
        const int64_t degree = int64_t(f.first);
        const double c = f.second, factor = w * double(degree);
        for (size_t j = 0; j < len; ++j) q[j] += factor * g[j] * whole_power(k[j] + c, degree - 1);
    } else if (f.kind == exponential) {
#pragma omp simd
        for (size_t j = 0; j < len; ++j) q[j] += w * g[j] * u[j];
    } else {
        const int64_t degree = int64_t(f.first);
        double total = 0.0;
        for (size_t j = 0; j < len; ++j) {
            const double square = ki * kj[j];
            const double norm = std::sqrt(square);
            if (!(norm > 0.0)) continue;
            const double cosine = k[j] / norm;
            double value, slope;
            angle(degree, cosine, &value, &slope);
            const double magnitude = degree == 0 ? 1.0 : (degree == 1 ? norm : square);
            const double by_angle = w * g[j] * magnitude * slope;
            const double by_norm = w * g[j] * (0.5 * double(degree) * magnitude * value) - 0.5 * by_angle * cosine;
            q[j] += by_angle / norm;
            total += by_norm / ki;
            columns[j] += by_norm / kj[j];
        }
        *row += total;
    }
}

// grad (M,): sum_{i<j} H_ij B_kij; along (M, n): the sums over j != i of H_ij B_kij; across (n,): those of the derivative
// by kappa_i
struct Sums {
    std::vector<double> grad, along, across;
    Sums(size_t m, size_t n) : grad(m, 0.0), along(m * n, 0.0), across(n, 0.0) {}
    void add(const Sums& other) {
        for (size_t k = 0; k < grad.size(); ++k) grad[k] += other.grad[k];
        for (size_t k = 0; k < along.size(); ++k) along[k] += other.along[k];
        for (size_t k = 0; k < across.size(); ++k) across[k] += other.across[k];
    }
};

// One part of the rows. On entry H is the derivative by the output of this layer, on return that by K (upper triangle;
// the diagonal is not touched).
inline void backward(const double* K, const double* kappa, const std::vector<Function>& functions, size_t n, double* H,
                     Sums& sums, size_t part) {
    double u[SEGMENT], g[SEGMENT], q[SEGMENT];
    double *grad = sums.grad.data(), *along = sums.along.data(), *across = sums.across.data();
    const bool paper = is_paper(functions);
    rows_of(part, n, [&](size_t i) {
        for (size_t start = i + 1; start < n; start += SEGMENT) {
            const size_t len = std::min(SEGMENT, n - start);
            const double* k = K + i * n + start;
            double* h = H + i * n + start;
            if (paper) {
                paper_backward(functions.data(), k, kappa[i], kappa + start, i, start, len, n, h, grad, along);
                continue;
            }
            std::fill(q, q + len, 0.0);
            for (size_t m = 0; m < functions.size(); ++m) {
                const Function& f = functions[m];
                double *row = along + m * n + i, *columns = along + m * n + start, total;
                if (is_simple(f)) {
                    total = simple(f, f.root[i], f.root + start, h, k, kappa[i], kappa + start, len, columns, q);
                } else {
                    values(f, k, kappa[i], kappa + start, len, u);
                    total = weigh(f.root[i], h, u, f.root + start, len, g, columns);
                    if (f.weight != 0.0)
                        chain(f, k, kappa[i], kappa + start, u, g, len, q, across + i, across + start);
                }
                *row += total;
                grad[m] += total;
            }
            std::copy(q, q + len, h);
        }
    });
    // a Gaussian depends on 2 K_ij - K_ii - K_jj, so the derivative by a diagonal entry is -1/2 of that by K
    for (size_t m = 0; m < functions.size(); ++m)
        if (functions[m].kind == gaussian)
            for (size_t i = 0; i < n; ++i) across[i] -= functions[m].weight * functions[m].first * along[m * n + i];
}

}  // namespace layers
