// Block coordinate descent for 1/2 ||Y - Z W||^2 + alpha/2 (sum_m |W_m|)^2, with blocks whose columns are orthogonal, so
// that the minimiser over one block follows from one equation for its norm.
//
// Columns come as rows of Zt (p, n); block m owns rows offsets[m]..offsets[m+1] and has the squared norms h of its
// columns. W is (T, p) and R = Y - Z W is (T, n): a block's norm is taken over all T outputs.
//
// Columns and products in single precision are swept in single precision, in less than half the time: what is updated is
// a copy in single precision, which drifts by rounding errors during the sweeps of one call.

#pragma once

namespace blocks {

// out[i] = z_i' r for `count` rows of Z that lie `stride` numbers apart
template <class Number>
KW_INLINE void dots_of(const Number* Z, size_t stride, size_t n, size_t count, const Number* r, double* out) {
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const Number *a = Z + i * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        Number ta = 0, tb = 0, tc = 0, td = 0;
#pragma omp simd reduction(+ : ta, tb, tc, td)
        for (size_t k = 0; k < n; ++k) {
            ta += a[k] * r[k];
            tb += b[k] * r[k];
            tc += c[k] * r[k];
            td += d[k] * r[k];
        }
        out[i] = ta, out[i + 1] = tb, out[i + 2] = tc, out[i + 3] = td;
    }
    for (; i < count; ++i) {
        const Number* a = Z + i * stride;
        Number t0 = 0;
#pragma omp simd reduction(+ : t0)
        for (size_t k = 0; k < n; ++k) t0 += a[k] * r[k];
        out[i] = t0;
    }
}

KW_CLONES void dots(const double* Z, size_t stride, size_t n, size_t count, const double* r, double* out) {
    dots_of(Z, stride, n, count, r, out);
}

KW_CLONES void dots(const float* Z, size_t stride, size_t n, size_t count, const float* r, double* out) {
    dots_of(Z, stride, n, count, r, out);
}

// r -= sum_i step[i] z_i over `count` rows of Z that lie `stride` numbers apart
template <class Number, class Sum>
KW_INLINE void subtract_of(const Number* Z, size_t stride, size_t n, size_t count, const double* step, Sum* r) {
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const Number *a = Z + i * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        const Sum sa = Sum(step[i]), sb = Sum(step[i + 1]), sc = Sum(step[i + 2]), sd = Sum(step[i + 3]);
#pragma omp simd
        for (size_t k = 0; k < n; ++k) r[k] -= sa * a[k] + sb * b[k] + sc * c[k] + sd * d[k];
    }
    for (; i < count; ++i) {
        const Number* a = Z + i * stride;
        const Sum s = Sum(step[i]);
#pragma omp simd
        for (size_t k = 0; k < n; ++k) r[k] -= s * a[k];
    }
}

KW_CLONES void subtract(const double* Z, size_t stride, size_t n, size_t count, const double* step, double* r) {
    subtract_of(Z, stride, n, count, step, r);
}

KW_CLONES void subtract(const float* Z, size_t stride, size_t n, size_t count, const double* step, float* r) {
    subtract_of(Z, stride, n, count, step, r);
}

// sums in double precision, for a residual without drift
KW_CLONES void subtract(const float* Z, size_t stride, size_t n, size_t count, const double* step, double* r) {
    subtract_of(Z, stride, n, count, step, r);
}

// rows that stay in a cache
constexpr size_t TILE = 512;

// f += d and u -= weight d for d = sum_i step[i] z_i - shift
template <class Number>
KW_INLINE void step_rows_of(const Number* Z, size_t n, size_t count, const double* step, double shift, const Number* weight,
                            Number* f, Number* u) {
    Number d[TILE];
    for (size_t from = 0; from < n; from += TILE) {
        const size_t length = std::min(TILE, n - from);
        std::fill(d, d + length, Number(shift));
        subtract_of(Z + from, n, length, count, step, d);
#pragma omp simd
        for (size_t k = 0; k < length; ++k) {
            f[from + k] -= d[k];
            u[from + k] += weight[from + k] * d[k];
        }
    }
}

KW_CLONES void step_rows(const double* Z, size_t n, size_t count, const double* step, double shift, const double* weight,
                         double* f, double* u) {
    step_rows_of(Z, n, count, step, shift, weight, f, u);
}

KW_CLONES void step_rows(const float* Z, size_t n, size_t count, const double* step, double shift, const float* weight,
                         float* f, float* u) {
    step_rows_of(Z, n, count, step, shift, weight, f, u);
}

// C (count, stride): the lower triangle of Z diag(weight) Z' ; sums = Z weight
template <class Number>
KW_INLINE void weighted_products_of(const Number* Z, size_t n, size_t count, const double* weight, double* C, size_t stride,
                                    double* sums) {
    Number r[TILE];
    std::vector<double> part(count);
    for (size_t i = 0; i < count; ++i) {
        sums[i] = 0.0;
        std::fill(C + i * stride, C + i * stride + count, 0.0);
    }
    for (size_t from = 0; from < n; from += TILE) {
        const size_t length = std::min(TILE, n - from);
        for (size_t i = 0; i < count; ++i) {
            const Number* z = Z + i * n + from;
            double sum = 0.0;
#pragma omp simd reduction(+ : sum)
            for (size_t k = 0; k < length; ++k) {
                r[k] = Number(z[k] * weight[from + k]);
                sum += r[k];
            }
            sums[i] += sum;
            dots_of(Z + from, n, length, i + 1, r, part.data());
            for (size_t j = 0; j <= i; ++j) C[i * stride + j] += part[j];
        }
    }
}

KW_CLONES void weighted_products(const double* Z, size_t n, size_t count, const double* weight, double* C, size_t stride,
                                 double* sums) {
    weighted_products_of(Z, n, count, weight, C, stride, sums);
}

KW_CLONES void weighted_products(const float* Z, size_t n, size_t count, const double* weight, double* C, size_t stride,
                                 double* sums) {
    weighted_products_of(Z, n, count, weight, C, stride, sums);
}

// Numbers that loops update: as they are, or a copy in single precision, which is put back in the end.
template <class Number>
class Updated {
public:
    Updated(double* given, size_t n) : given(given), copy(given, given + n) {}
    ~Updated() { std::copy(copy.begin(), copy.end(), given); }
    Number* data() { return copy.data(); }

private:
    double* given;
    std::vector<Number> copy;
};

template <>
class Updated<double> {
public:
    Updated(double* given, size_t) : given(given) {}
    double* data() { return given; }

private:
    double* given;
};

// The norm rho of the minimiser of 1/2 sum_i h_i w_i^2 - v'w + alpha/2 rho^2 + pull rho, from the squares of v: the root of
// sum_i v_i^2 / ((h_i + alpha) rho + pull)^2 = 1, by Newton on the inverse root of the sum, which is nearly linear.
KW_CLONES double norm_of_block(const double* square, const double* h, size_t width, double alpha, double pull, double start,
                               double settled) {
    double total = 0.0, least = h[0], most = h[0];
    for (size_t i = 0; i < width; ++i) {
        total += square[i];
        least = std::min(least, h[i]);
        most = std::max(most, h[i]);
    }
    const double over = std::sqrt(total) - pull;
    if (!(over > 0.0)) return 0.0;
    double low = over / (most + alpha), high = over / (least + alpha);
    if (low == high) return low;
    double rho = start > low && start < high ? start : low;
    for (int k = 0; k < 60; ++k) {
        double sum = 0.0, slope = 0.0;
#pragma omp simd reduction(+ : sum, slope)
        for (size_t i = 0; i < width; ++i) {
            const double c = h[i] + alpha, d = 1.0 / (c * rho + pull), term = square[i] * d * d;
            sum += term;
            slope += term * c * d;
        }
        if (sum > 1.0) low = rho; else high = rho;
        // (1 - sum^(-1/2)) / (d/d rho of sum^(-1/2))
        const double root = std::sqrt(sum);
        double next = rho + (root - 1.0) * sum / slope;
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        const double moved = std::fabs(next - rho);
        rho = next;
        if (moved <= settled * rho) break;
    }
    return rho;
}

// One block: from v (T, width) = gradient + h w, its old coefficients and norm, the new coefficients; returns the norm.
inline double minimise_block(const double* v, const double* h, size_t width, size_t T, double alpha, double pull,
                             double start, double settled, double* square, double* out) {
    if (width == 1 && T == 1) {
        const double size = std::fabs(v[0]) - pull, rho = size > 0.0 ? size / (h[0] + alpha) : 0.0;
        out[0] = v[0] < 0.0 ? -rho : rho;
        return rho;
    }
    for (size_t i = 0; i < width; ++i) {
        square[i] = 0.0;
        for (size_t t = 0; t < T; ++t) square[i] += v[t * width + i] * v[t * width + i];
    }
    const double rho = norm_of_block(square, h, width, alpha, pull, start, settled);
    if (rho <= 0.0) {
        std::fill(out, out + T * width, 0.0);
        return 0.0;
    }
    double total = 0.0;
    for (size_t i = 0; i < width; ++i) {
        const double share = rho / ((h[i] + alpha) * rho + pull);
        total += square[i] * share * share;
        for (size_t t = 0; t < T; ++t) out[t * width + i] = share * v[t * width + i];
    }
    return std::sqrt(total);
}

// Coefficients that descend, with what is needed to move them.
struct Blocks {
    const int64_t* offsets;  // of all blocks
    const int64_t* chosen;   // blocks that take part
    size_t count;            // of chosen blocks
    const double* h;         // squared norms of the columns
    size_t p, T;
    double* W;      // (T, p)
    double* norms;  // of all blocks; those of blocks that are not chosen are 0
    double settled = 1e-14;  // share by which the norm of a block changes in the last step to it

    size_t widest() const {
        size_t most = 0;
        for (size_t k = 0; k < count; ++k)
            most = std::max(most, size_t(offsets[chosen[k] + 1] - offsets[chosen[k]]));
        return most;
    }
    double sum() const {
        double total = 0.0;
        for (size_t k = 0; k < count; ++k) total += norms[chosen[k]];
        return total;
    }
    void scale(double factor) {
        for (size_t k = 0; k < count; ++k) {
            const size_t m = size_t(chosen[k]);
            norms[m] *= factor;
            for (size_t t = 0; t < T; ++t)
                for (int64_t i = offsets[m]; i < offsets[m + 1]; ++i) W[t * p + size_t(i)] *= factor;
        }
    }
};

struct Report {
    int64_t sweeps;
    double left;  // of the objective, by the gradients that the last sweep over all chosen blocks has met
};

// Inner products of the targets, f = Z W and the residual.
struct Sums {
    double along, size;    // <Y, f>, |f|^2
    double inner, square;  // <Y, R>, |R|^2
};

// Sweeps until the gap over the chosen blocks is at most `aim` times the objective: over all of them first and last, and
// over those with coefficients in between. Each is followed by the best multiple of all coefficients. The gap takes every
// block's gradient as the sweep met it. `gradient(m, first, width, v)` writes Z_m'R (T, width), `move(first, width, step)`
// subtracts Z_m step (T, width) from the residual, `fit()` and `rest()` give two of the sums, `rescale(t)` makes f as large
// t times.
template <class Gradient, class Move, class Fit, class Rest, class Rescale>
Report descend(Blocks& b, double alpha, double aim, int64_t most, const Gradient& gradient, const Move& move,
               const Fit& fit, const Rest& rest, const Rescale& rescale) {
    constexpr int LONGEST = 10;
    const size_t widest = b.widest();
    std::vector<double> v(b.T * widest), fresh(b.T * widest), square(widest);
    std::vector<int64_t> whole(b.chosen, b.chosen + b.count), some;
    const auto with_coefficients = [&] {
        some.clear();
        for (int64_t m : whole)
            if (b.norms[m] > 0.0) some.push_back(m);
    };
    const auto reach = [&](size_t m) {
        const size_t first = size_t(b.offsets[m]), width = size_t(b.offsets[m + 1]) - first;
        gradient(first, width, v.data());
        double total = 0.0;
        for (size_t i = 0; i < b.T * width; ++i) total += v[i] * v[i];
        return total;
    };
    Report report{0, 1.0};
    bool all = b.sum() > 0.0;
    if (!all) {
        // from zero, every block could move: the first is the one that gains most
        double best = 0.0;
        for (int64_t m : whole) {
            const double size = reach(size_t(m));
            if (size > best) best = size, some.assign(1, m);
        }
        if (some.empty()) return report;
    }
    for (int since = 0; report.sweeps < most; ++report.sweeps) {
        double highest = 0.0, total = b.sum();
        for (int64_t block : all ? whole : some) {
            const size_t m = size_t(block), first = size_t(b.offsets[m]);
            const size_t width = size_t(b.offsets[m + 1]) - first;
            const double* h = b.h + first;
            highest = std::max(highest, reach(m));
            for (size_t t = 0; t < b.T; ++t)
                for (size_t i = 0; i < width; ++i) v[t * width + i] += h[i] * b.W[t * b.p + first + i];
            const double others = std::max(0.0, total - b.norms[m]);
            const double norm =
                minimise_block(v.data(), h, width, b.T, alpha, alpha * others, b.norms[m], b.settled, square.data(),
                               fresh.data());
            if (norm == 0.0 && b.norms[m] == 0.0) continue;
            bool moved = false;
            for (size_t t = 0; t < b.T; ++t)
                for (size_t i = 0; i < width; ++i) {
                    double& w = b.W[t * b.p + first + i];
                    const double step = fresh[t * width + i] - w;
                    w = fresh[t * width + i];
                    fresh[t * width + i] = step;
                    moved = moved || step != 0.0;
                }
            total = others + norm;
            b.norms[m] = norm;
            if (moved) move(first, width, fresh.data());
        }
        const double level = b.sum();
        Sums sums{};
        fit(sums);
        const double below = sums.size + alpha * level * level, best = below > 0.0 ? sums.along / below : 0.0;
        const bool scaled = best > 0.0 && best < 1e6 && best != 1.0;
        if (scaled) {
            b.scale(best);
            rescale(best);
        }
        rest(sums);
        const double now = scaled ? best * level : level;
        const double primal = 0.5 * sums.square + 0.5 * alpha * now * now, under = sums.square + highest / alpha;
        const double dual = under > 0.0 && sums.inner > 0.0 ? 0.5 * sums.inner * sums.inner / under : 0.0;
        // below 0 where gradients have grown since their blocks moved: that is no gap of 0
        const double left = primal > 0.0 ? std::abs(primal - dual) / primal : 0.0;
        ++since;
        if (all) {
            report.left = left;
            if (left <= aim) {
                ++report.sweeps;
                break;
            }
            since = 0;
        }
        all = !all && (left <= aim || since >= LONGEST);
        if (!all) with_coefficients();
    }
    return report;
}

// R (T, n) = Y - Z W is kept
template <class Number>
Report on_rows(Blocks& b, const Number* Zt, size_t n, const double* Y, double* residual, double alpha, double aim,
               int64_t most) {
    const size_t N = b.T * n;
    Updated<Number> updated(residual, N);
    Number* R = updated.data();
    return descend(
        b, alpha, aim, most,
        [&](size_t first, size_t width, double* v) {
            for (size_t t = 0; t < b.T; ++t) dots(Zt + first * n, n, n, width, R + t * n, v + t * width);
        },
        [&](size_t first, size_t width, const double* step) {
            for (size_t t = 0; t < b.T; ++t) subtract(Zt + first * n, n, n, width, step + t * width, R + t * n);
        },
        [&](Sums& sums) {
            for (size_t k = 0; k < N; ++k) {
                const double f = Y[k] - R[k];
                sums.along += Y[k] * f;
                sums.size += f * f;
            }
        },
        [&](Sums& sums) {
            for (size_t k = 0; k < N; ++k) {
                sums.inner += Y[k] * R[k];
                sums.square += double(R[k]) * R[k];
            }
        },
        [&](double best) {
            for (size_t k = 0; k < N; ++k) R[k] = Number(Y[k] - best * (Y[k] - R[k]));
        });
}

// to = U'from for the rows of U, which lie `stride` numbers apart, and to = U from
KW_CLONES void turn(const double* U, size_t stride, size_t width, const double* from, double* to) {
    std::fill(to, to + width, 0.0);
    for (size_t i = 0; i < width; ++i)
#pragma omp simd
        for (size_t k = 0; k < width; ++k) to[k] += U[i * stride + k] * from[i];
}

KW_CLONES void turn_back(const double* U, size_t stride, size_t width, const double* from, double* to) {
    for (size_t i = 0; i < width; ++i) {
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (size_t k = 0; k < width; ++k) sum += U[i * stride + k] * from[k];
        to[i] = sum;
    }
}

// A quadratic model of a loss on rows: 1/2 sum_i weight_i (y_i - x_i'w - t)^2 with the best t, or without t. For each block,
// `turns` (p, widest) has the eigenvectors of its part of the second derivative as columns, and b.h the eigenvalues. `means` (p) are the weighted means of the columns, 0 without t. f = X w + t and u = weight (y - f)
// are kept; `inverse` is 1 / weight, and 0 for rows without one.
template <class Number>
Report on_weighted_rows(Blocks& b, const Number* X, size_t n, const double* turns, size_t widest, const double* means,
                        const double* weight, const double* inverse, double* fit, double* left, double alpha, double aim,
                        int64_t most) {
    // models are not minimised to the last digits, and a step has twice the digits of the one before
    b.settled = 1e-9;
    std::vector<double> own(widest);
    const std::vector<Number> pull(weight, weight + n);
    Updated<Number> updated_fit(fit, n), updated_left(left, n);
    Number *f = updated_fit.data(), *u = updated_left.data();
    const auto turned = [&](size_t first, size_t width, const double* from, double* to) {
        turn(turns + first * widest, widest, width, from, to);
    };
    const auto turned_back = [&](size_t first, size_t width, const double* from, double* to) {
        turn_back(turns + first * widest, widest, width, from, to);
    };
    const auto each = [&](const auto& turn) {
        for (size_t k = 0; k < b.count; ++k) {
            const size_t first = size_t(b.offsets[b.chosen[k]]), width = size_t(b.offsets[b.chosen[k] + 1]) - first;
            std::copy(b.W + first, b.W + first + width, own.begin());
            turn(first, width, own.data(), b.W + first);
        }
    };
    each(turned);
    const Report report = descend(
        b, alpha, aim, most,
        [&](size_t first, size_t width, double* v) {
            dots(X + first * n, n, n, width, u, own.data());
            turned(first, width, own.data(), v);
        },
        [&](size_t first, size_t width, const double* step) {
            turned_back(first, width, step, own.data());
            double shift = 0.0;
            for (size_t i = 0; i < width; ++i) shift += own[i] * means[first + i];
            step_rows(X + first * n, n, width, own.data(), shift, pull.data(), f, u);
        },
        [&](Sums& sums) {
            for (size_t k = 0; k < n; ++k) {
                const double fit = weight[k] * f[k];
                sums.along += (u[k] + fit) * f[k];
                sums.size += fit * f[k];
            }
        },
        [&](Sums& sums) {
            for (size_t k = 0; k < n; ++k) {
                const double size = double(u[k]) * u[k] * inverse[k];
                sums.inner += size + double(u[k]) * f[k];
                sums.square += size;
            }
        },
        [&](double best) {
            for (size_t k = 0; k < n; ++k) {
                u[k] += Number((1.0 - best) * weight[k] * f[k]);
                f[k] *= Number(best);
            }
        });
    each(turned_back);
    return report;
}

// G (T, p) = Z'R is kept for the chosen blocks, with C = Z'Z (p, p), Q = Z'Y (T, p) and total = |Y|^2
template <class Number>
Report on_products(Blocks& b, const Number* C, const double* Q, double total, double* gradient, double alpha, double aim,
                   int64_t most) {
    Updated<Number> updated(gradient, b.T * b.p);
    Number* G = updated.data();
    // neighbouring blocks make one run
    std::vector<std::pair<size_t, size_t>> runs;
    for (size_t k = 0; k < b.count; ++k) {
        const size_t first = size_t(b.offsets[b.chosen[k]]), last = size_t(b.offsets[b.chosen[k] + 1]);
        if (!runs.empty() && runs.back().second == first) runs.back().second = last;
        else runs.emplace_back(first, last);
    }
    const auto each = [&](const auto& visit) {
        for (size_t t = 0; t < b.T; ++t)
            for (const auto& [from, to] : runs)
                for (size_t i = t * b.p + from; i < t * b.p + to; ++i) visit(i);
    };
    return descend(
        b, alpha, aim, most,
        [&](size_t first, size_t width, double* v) {
            for (size_t t = 0; t < b.T; ++t) std::copy(G + t * b.p + first, G + t * b.p + first + width, v + t * width);
        },
        [&](size_t first, size_t width, const double* step) {
            for (size_t t = 0; t < b.T; ++t)
                for (const auto& [from, to] : runs)
                    subtract(C + first * b.p + from, b.p, to - from, width, step + t * width, G + t * b.p + from);
        },
        [&](Sums& sums) {
            each([&](size_t i) {
                sums.along += Q[i] * b.W[i];
                sums.size += (Q[i] - G[i]) * b.W[i];
            });
            sums.size = std::max(0.0, sums.size);
        },
        [&](Sums& sums) {
            double along = 0.0, left = 0.0;
            each([&](size_t i) {
                along += Q[i] * b.W[i];
                left += G[i] * b.W[i];
            });
            sums.inner = total - along;
            sums.square = std::max(0.0, sums.inner - left);
        },
        [&](double best) { each([&](size_t i) { G[i] = Number(Q[i] - best * (Q[i] - G[i])); }); });
}

}  // namespace blocks
