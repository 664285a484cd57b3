// The best intercept of kernel logistic regression: the t at which the residuals of both classes have the same sum,
//
//     sum_{y_i = 1} c_i p_i  =  sum_{y_i = -1} c_i p_i ,      p_i = 1 / (1 + exp(y_i (f_i + t))) .
//
// The difference of the logarithms of both sums rises with t, and where few rows decide it is almost linear, however
// small the sums are. So Newton's method takes few steps; one that leaves the bracket goes to the middle row inside.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

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

// rows with a cost of zero are ignored; both classes must have others
inline double intercept(const double* y, const double* costs, const double* product, size_t n) {
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

}  // namespace logistic
