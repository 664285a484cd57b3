// A sum whose rounding errors are added up, too: next to exact, as coefficients need that have to sum to zero.

#pragma once

#include <cmath>
#include <cstddef>

namespace sums {

// four chains, so that additions need not wait for each other
inline double compensated(const double* x, size_t n) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0}, lost[4] = {0.0, 0.0, 0.0, 0.0};
    const auto add = [&](size_t chain, double value) {
        const double total = sum[chain] + value, part = total - sum[chain];
        lost[chain] += (sum[chain] - (total - part)) + (value - part);
        sum[chain] = total;
    };
    for (size_t i = 0; i < n; ++i) add(i & 3, x[i]);
    for (size_t chain = 1; chain < 4; ++chain) {
        lost[0] += lost[chain];
        add(0, sum[chain]);
    }
    return sum[0] + lost[0];
}

}  // namespace sums
