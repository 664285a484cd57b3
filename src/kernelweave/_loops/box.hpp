// Losses that follow from the box of their coefficients,
//
//     loss_i(f) = max_{lo_i <= b <= hi_i}  b (y_i - f) - kink |b| - ridge_i b^2 / 2 ,      linear = -y :
//
// values, gap, best intercept and rounding errors. Every row has two sides, coefficients of both signs, with
// e = y - f - kink for positive ones and e = f - y - kink for negative ones. Beside a ridge a bound may be UNBOUNDED.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sums.hpp"

namespace box {

constexpr double EPS = 2.220446049250313e-16;
// larger bounds stand for none
constexpr double UNBOUNDED = 1e299;
// sums that differ by this share of their terms are equal
constexpr double SAME = 1e-13;

struct Machine {
    const double *linear, *ridge, *lo, *hi;
    double kink;
    size_t n;
};

struct Values {
    double loss, gap;
};

// the best coefficient of a side
inline double best(double e, double most, double ridge) {
    if (!(e > 0.0)) return 0.0;
    return ridge > 0.0 ? std::min(e / ridge, most) : most;
}

// The gap is a sum of nonnegative terms: what a coefficient loses against the best one.
inline void add_side(double e, double most, double ridge, double a, Values* sum) {
    const double top = best(e, most, ridge), apart = top - a;
    const double beyond = most < UNBOUNDED ? std::max(e - ridge * most, 0.0) : 0.0;
    sum->loss += top * (e - 0.5 * ridge * top);
    sum->gap += a * std::max(-e, 0.0) + (beyond > 0.0 ? (most - a) * beyond : 0.0) + 0.5 * ridge * apart * apart;
}

// in four sums, so that no chain of roundings is long
template <class Term>
double sum(size_t n, const Term& term) {
    double total[4] = {};
    for (size_t i = 0; i < n; ++i) total[i & 3] += term(i);
    return (total[0] + total[1]) + (total[2] + total[3]);
}

// also four sums
inline Values values(const Machine& m, const double* b, const double* product, double t) {
    Values sum[4] = {};
    for (size_t i = 0; i < m.n; ++i) {
        const double r = -m.linear[i] - (product[i] + t);
        add_side(r - m.kink, m.hi[i], m.ridge[i], std::max(b[i], 0.0), sum + (i & 3));
        add_side(-r - m.kink, -m.lo[i], m.ridge[i], std::max(-b[i], 0.0), sum + (i & 3));
    }
    return {(sum[0].loss + sum[1].loss) + (sum[2].loss + sum[3].loss),
            (sum[0].gap + sum[1].gap) + (sum[2].gap + sum[3].gap)};
}

// A sum of best coefficients, the sum of their sizes, and its derivative.
struct Level {
    double sum = 0.0, size = 0.0, slope = 0.0;

    void add(double e, double most, double ridge, double sign, bool tie) {
        const double a = e == 0.0 && tie && ridge == 0.0 ? most : best(e, most, ridge);
        sum += sign * a;
        size += a;
        if (ridge > 0.0 && e > 0.0 && a < most) slope += 1.0 / ridge;
    }
    bool above() const { return sum > SAME * size; }
    bool below() const { return sum < -SAME * size; }
};

// The best t, at which the best coefficients for y - product - t sum to zero; the middle where it is not unique.
inline double intercept(const Machine& m, const double* product) {
    std::vector<double> rest(m.n), points;
    for (size_t i = 0; i < m.n; ++i) {
        rest[i] = -m.linear[i] - product[i];
        if (m.hi[i] > 0.0) {
            points.push_back(rest[i] - m.kink);
            if (m.ridge[i] > 0.0 && m.hi[i] < UNBOUNDED) points.push_back(rest[i] - m.kink - m.ridge[i] * m.hi[i]);
        }
        if (m.lo[i] < 0.0) {
            points.push_back(rest[i] + m.kink);
            if (m.ridge[i] > 0.0 && m.lo[i] > -UNBOUNDED) points.push_back(rest[i] + m.kink - m.ridge[i] * m.lo[i]);
        }
    }
    if (points.empty()) return 0.0;
    std::sort(points.begin(), points.end());
    // the sum falls with t; where it jumps it has two values, on the left and on the right
    const auto at = [&](double t, bool right) {
        Level level;
        for (size_t i = 0; i < m.n; ++i) {
            level.add((rest[i] - m.kink) - t, m.hi[i], m.ridge[i], 1.0, !right);
            level.add(t - (rest[i] + m.kink), -m.lo[i], m.ridge[i], -1.0, right);
        }
        return level;
    };
    const auto root = [&](double from, double to) {
        const double above = at(from, true).sum, below = at(to, false).sum;
        return above > below ? from + (to - from) * std::min(std::max(above / (above - below), 0.0), 1.0) : to;
    };
    const auto first = std::partition_point(points.begin(), points.end(), [&](double p) { return at(p, true).above(); });
    const auto after = std::partition_point(points.begin(), points.end(), [&](double p) { return !at(p, false).below(); });
    double begin = first == points.end() ? points.back() : *first;
    if (first != points.begin() && first != points.end() && !at(*first, false).above()) begin = root(first[-1], *first);
    double end = after == points.begin() ? points.front() : after[-1];
    if (after != points.begin() && after != points.end() && !at(end, true).below()) end = root(end, *after);
    const double t = 0.5 * (begin + end);
    // with the digits that the way between two points has not
    const Level here = at(t, true);
    return here.slope > 0.0 ? t + here.sum / here.slope : t;
}

// Bound of the errors of `primal` and of the dual value, given those of the product; see `Loss.rounding` in loss.py.
inline double rounding(const Machine& m, const double* b, const double* product, double t, const double* error,
                       double sums, bool fit_intercept) {
    const double missing = sums::compensated(b, m.n);
    double total[4] = {}, form[4] = {}, side = 0.0, away = 0.0;
    for (size_t i = 0; i < m.n; ++i) {
        const double y = -m.linear[i], f = product[i] + t, r = y - f, size = std::abs(b[i]);
        // sums with a product of zero are exact
        const double off = error[i] + EPS * ((product[i] != 0.0 ? std::abs(f) : 0.0) + std::abs(r));
        double residual = 0.0;
        for (const double e : {r - off, r + off}) {
            const double top = best(e - m.kink, m.hi[i], m.ridge[i]) - best(-e - m.kink, -m.lo[i], m.ridge[i]);
            residual = std::max(residual, std::abs(b[i] - top));
        }
        total[i & 3] += off * (residual + 0.5 * size);
        form[i & 3] += size * std::abs(product[i]);
        if (missing > 0.0 ? b[i] <= 0.0 : b[i] >= 0.0) continue;
        side += size;
        if (fit_intercept) away += size * std::abs(y - std::copysign(m.kink, b[i]) - m.ridge[i] * b[i] - f);
    }
    sums += (form[0] + form[1]) + (form[2] + form[3]);
    const double share = side > 0.0 ? std::abs(missing) / side : 0.0;
    return (total[0] + total[1]) + (total[2] + total[3]) + EPS * (2.0 + std::sqrt(double(m.n))) * sums + share * away;
}

// Coefficients that differ from zero or a bound only by rounding are set to it.
inline void snap(const Machine& m, double* b) {
    double largest = 0.0;
    for (size_t i = 0; i < m.n; ++i) largest = std::max(largest, std::abs(b[i]));
    for (size_t i = 0; i < m.n; ++i) {
        if (std::abs(b[i]) <= EPS * largest) b[i] = 0.0;
        if (std::abs(b[i] - m.hi[i]) <= 16.0 * EPS * std::abs(m.hi[i])) b[i] = m.hi[i];
        if (std::abs(b[i] - m.lo[i]) <= 16.0 * EPS * std::abs(m.lo[i])) b[i] = m.lo[i];
    }
}

// Coefficients in the box that sum to zero, near others with the same zeros; all zero if one sign is missing.
inline void balance(const Machine& m, double* b) {
    for (size_t i = 0; i < m.n; ++i) b[i] = std::min(std::max(b[i], m.lo[i]), m.hi[i]);
    const double above = sum(m.n, [&](size_t i) { return std::max(b[i], 0.0); });
    const double below = sum(m.n, [&](size_t i) { return std::max(-b[i], 0.0); });
    const double least = std::min(above, below);
    for (size_t i = 0; i < m.n; ++i) b[i] *= least > 0.0 ? least / (b[i] > 0.0 ? above : below) : 0.0;
}

// The best multiple of coefficients that sum to zero; a solution for another C is often proportional to the solution.
inline void multiply(const Machine& m, const double* K, double* b, double* product) {
    std::fill(product, product + m.n, 0.0);
    smo::add_rows(K, m.n, b, product);
    double curvature = 0.0, slope = 0.0, most = UNBOUNDED;
    for (size_t i = 0; i < m.n; ++i) {
        if (b[i] == 0.0) continue;
        curvature += b[i] * (product[i] + m.ridge[i] * b[i]);
        slope += m.linear[i] * b[i] + m.kink * std::abs(b[i]);
        const double end = b[i] > 0.0 ? m.hi[i] : m.lo[i];
        // without a bound the ratio may overflow
        if (std::abs(end) < UNBOUNDED) most = std::min(most, end / b[i]);
    }
    if (curvature <= 0.0 || slope >= 0.0) return;
    const double factor = std::min(-slope / curvature, most);
    for (size_t i = 0; i < m.n; ++i) b[i] = std::min(std::max(factor * b[i], m.lo[i]), m.hi[i]);
}

struct Found {
    double resolution, value, infeasibility, rounding, primal, gap, t;
};

// Snapped coefficients, their product with K and a bound of its rounding errors, those of the entries of K as a share of
// sqrt(K_ii K_jj), and the gradient; returns the rounding error of a derivative, the value of the program, the largest
// violation of a constraint, the values of the machine at the best intercept, and a bound of the rounding errors of these.
inline Found look(const Machine& m, const double* K, double total, double entry_error, double* b, double* product, double* error,
                  double* g) {
    snap(m, b);
    std::fill(product, product + m.n, 0.0);
    smo::add_rows(K, m.n, b, product);
    double used = 0.0, size = 0.0, form = 0.0, largest = 0.0, linear = 0.0, outside = 0.0;
    for (size_t i = 0; i < m.n; ++i) {
        const double diagonal = K[i * m.n + i];
        used += b[i] != 0.0;
        size += std::abs(b[i]);
        error[i] = std::sqrt(std::max(diagonal, 0.0));
        form += error[i] * std::abs(b[i]);
        largest = std::max(largest, std::abs(diagonal + m.ridge[i]));
        linear = std::max(linear, std::abs(m.linear[i]));
        outside = std::max(outside, std::max(m.lo[i] - b[i], b[i] - m.hi[i]));
        g[i] = m.linear[i] + m.ridge[i] * b[i] + product[i];
    }
    const double share = (EPS * (2.0 + std::sqrt(used)) + entry_error) * form;
    for (size_t i = 0; i < m.n; ++i) error[i] *= share;
    const double t = intercept(m, product), form_b = sum(m.n, [&](size_t i) { return b[i] * product[i]; });
    const double value = 0.5 * sum(m.n, [&](size_t i) { return b[i] * (g[i] + m.linear[i]); }) + m.kink * size;
    const Values found = values(m, b, product, t);
    outside = std::max(outside, std::abs(sums::compensated(b, m.n) - total));
    const double primal = 0.5 * form_b + found.loss;
    const double rounded = rounding(m, b, product, t, error, primal + found.gap, true);
    return {8.0 * EPS * (largest * size + linear), value, outside, rounded, primal, found.gap, t};
}

}  // namespace box
