// Sums over the rows of the logistic loss, and its best intercept: the t at which the residuals of both classes have the same sum,
//
//     sum_{y_i = 1} c_i p_i  =  sum_{y_i = -1} c_i p_i ,      p_i = 1 / (1 + exp(y_i (f_i + t))) .
//
// The difference of the logarithms of both sums rises with t, and where few rows decide it is almost linear, however
// small the sums are. So Newton's method takes few steps; one that leaves the bracket goes to the middle row inside.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "sums.hpp"

namespace logistic {

constexpr double EPS = 2.220446049250313e-16;
// farther from all rows the sums are exponential functions
constexpr double FAR = 50.0;
constexpr int MOST = 100;

struct Sum {
    double log;    // of the sum
    double slope;  // of the logarithm, in the direction of smaller residuals
};

// rows of one class: z_i = y_i (f_i + t), and logarithms of their costs
inline Sum residuals(const std::vector<double>& f, const std::vector<double>& log_c, double y, double t,
                     std::vector<double>& work) {
    double top = -1e300;
    for (size_t k = 0; k < f.size(); ++k) {
        const double z = y * (f[k] + t);
        work[k] = log_c[k] - (z > 0.0 ? z + std::log1p(std::exp(-z)) : std::log1p(std::exp(z)));
        top = std::max(top, work[k]);
    }
    double total = 0.0, slope = 0.0;
    for (size_t k = 0; k < f.size(); ++k) {
        const double below = work[k] - top;
        if (below < -745.0) continue;
        const double share = std::exp(below), z = y * (f[k] + t);
        total += share;
        slope += share * (z > 0.0 ? 1.0 / (1.0 + std::exp(-z)) : std::exp(z) / (1.0 + std::exp(z)));
    }
    return {top + std::log(total), slope / total};
}

// The same sums where they neither overflow nor underflow, for all rows at once; false where they do.
inline bool both(const double* y, const double* costs, const double* product, size_t n, double t, Sum& above, Sum& below) {
    double total[2] = {0.0, 0.0}, slope[2] = {0.0, 0.0};
    for (size_t i = 0; i < n; ++i) {
        const bool side = y[i] > 0.0;
        const double z = product[i] + t, p = 1.0 / (1.0 + std::exp(side ? z : -z)), share = costs[i] * p;
        total[side] += share;
        slope[side] += share * (1.0 - p);
    }
    constexpr double LEAST = 1e-280, MOST_SUM = 1e280;
    for (double sum : total)
        if (!(sum > LEAST && sum < MOST_SUM)) return false;
    above = {std::log(total[1]), slope[1] / total[1]};
    below = {std::log(total[0]), slope[0] / total[0]};
    return true;
}

// Newton's method from t; false where it does not converge in a few steps
inline bool from(double& t, const double* y, const double* costs, const double* product, size_t n) {
    double last = std::numeric_limits<double>::infinity();
    for (int k = 0; k < 12; ++k) {
        Sum above, below;
        if (!both(y, costs, product, n, t, above, below)) return false;
        const double g = below.log - above.log, slope = below.slope + above.slope;
        if (!(std::fabs(g) < last) || !(slope > 1e-8)) return std::fabs(g) <= 1e-14;
        if (std::fabs(g) <= EPS) return true;
        last = std::fabs(g);
        const double next = t - g / slope;
        if (std::fabs(next - t) <= 2.0 * EPS * std::max(std::fabs(t), 1e-3)) return t = next, true;
        t = next;
    }
    return false;
}

// rows with a cost of zero are ignored; both classes must have others
inline double intercept(const double* y, const double* costs, const double* product, size_t n, double start = 0.0) {
    if (from(start, y, costs, product, n)) return start;
    std::vector<double> f[2], log_c[2], knots;
    double total[2] = {0.0, 0.0};
    for (size_t i = 0; i < n; ++i) {
        if (!(costs[i] > 0.0)) continue;
        const size_t side = y[i] > 0.0;
        f[side].push_back(product[i]);
        log_c[side].push_back(std::log(costs[i]));
        total[side] += costs[i];
        knots.push_back(-product[i]);
    }
    if (f[0].empty() || f[1].empty()) return 0.0;
    std::sort(knots.begin(), knots.end());
    std::vector<double> work(knots.size());
    // at its ends the residuals of one class are larger than those of the other at any intercept inside
    const double odds = std::log(total[1]) - std::log(total[0]);
    double low = odds + knots.front(), high = odds + knots.back();
    double t = std::min(std::max(0.0, low), high);
    for (int k = 0; k < MOST; ++k) {
        const Sum above = residuals(f[1], log_c[1], 1.0, t, work), below = residuals(f[0], log_c[0], -1.0, t, work);
        const double g = below.log - above.log, slope = below.slope + above.slope;
        if (std::fabs(g) <= EPS) return t;
        (g > 0.0 ? high : low) = t;
        double next = low;
        if (slope > 1e-200) next = t - g / slope;
        if (!(low < next && next < high)) {
            const auto first = std::upper_bound(knots.begin(), knots.end(), low);
            const auto last = std::lower_bound(first, knots.end(), high);
            if (first != last) next = first[(last - first) / 2];
            else if (high - low > 4.0 * FAR && k % 2 == 0) next = g > 0.0 ? low + FAR : high - FAR;
            if (!(low < next && next < high)) next = low + 0.5 * (high - low);
        }
        if (std::fabs(next - t) <= 2.0 * EPS * std::max(std::fabs(t), 1e-3)) return next;
        t = next;
    }
    return t;
}

// log(1 + exp(z))
inline double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))); }

// sums are of four chains, as the bounds of their rounding errors assume
inline double value(const double* y, const double* costs, const double* f, size_t n) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    for (size_t i = 0; i < n; ++i) sum[i & 3] += costs[i] * softplus(-y[i] * f[i]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The loss at f = product + t, minus its derivatives b, and its second derivatives h, of which probabilities count as at
// least `flattest`. With an intercept t is the best one, found from t, and b loses what rounding leaves of its sum.
inline double expansion(const double* y, const double* costs, const double* product, size_t n, bool own, double flattest,
                        double& t, double* b, double* h) {
    t = own ? intercept(y, costs, product, n, t) : 0.0;
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    for (size_t i = 0; i < n; ++i) {
        const double z = -y[i] * (product[i] + t), small = std::exp(-std::fabs(z)), share = 1.0 / (1.0 + small);
        const double p = z > 0.0 ? share : small * share, q = z > 0.0 ? small * share : share;
        sum[i & 3] += costs[i] * (std::max(z, 0.0) + std::log1p(small));
        b[i] = costs[i] * y[i] * p;
        h[i] = costs[i] * p * std::max(q, flattest);
    }
    if (own) {
        const double missing = sums::compensated(b, n);
        double heavy = 0.0;
        for (size_t i = 0; i < n; ++i) heavy += std::max(missing > 0.0 ? b[i] : -b[i], 0.0);
        const double excess = heavy > 0.0 ? missing / heavy : 0.0;
        for (size_t i = 0; i < n; ++i)
            if (b[i] * missing > 0.0) b[i] -= std::fabs(b[i]) * excess;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// a (x - log(1 + x)) for x = d / a, with the logarithm of a + d, a probability
inline double beyond_linear(double a, double d, double log_p) {
    // far from a, the probability may be 0 or x infinite, but the logarithms are not
    if (std::fabs(d) > 0.5 * a) return d - a * log_p + (a > 0.0 ? a * std::log(a) : 0.0);
    if (!(a > 0.0)) return 0.0;
    const double x = d / a;
    if (std::fabs(x) < 1e-4) return a * x * x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - 0.2 * x)));
    return a * (x - std::log1p(x));
}

inline double gap(const double* y, const double* costs, const double* b, const double* f, size_t n) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    for (size_t i = 0; i < n; ++i) {
        if (!(costs[i] > 0.0)) continue;
        const double z = -y[i] * f[i], small = std::exp(-std::fabs(z)), tail = std::log1p(small);
        const double p = (z > 0.0 ? 1.0 : small) / (1.0 + small), log_p = std::min(z, 0.0) - tail, log_q = std::min(-z, 0.0) - tail;
        const double a = std::min(std::max(y[i] * b[i] / costs[i], 0.0), 1.0);
        // the linear terms of both logarithms cancel, and the rest has no sign
        sum[i & 3] += costs[i] * (beyond_linear(a, p - a, log_p) + beyond_linear(1.0 - a, a - p, log_q));
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace logistic
