// The first rounds of a box program whose coefficients sum to zero, as `Run` in machines/smo.py goes on with them: SMO, and
// Newton steps on its free coefficients, until the gap is small.

#pragma once

namespace rounds {

// as in machines/smo.py and machines/polish.py
constexpr double CHUNK = 4e8, NEGATIVE = 1e-6, SYSTEM_COST = 1.0 / 40.0, SHARE = 2.0;
constexpr int64_t MOST_SYSTEMS = 20, PATIENCE = 4;
constexpr size_t FEW = 128;

// A place to look at: coefficients, their product with K and its errors, and the gradient.
struct Point {
    std::vector<double> b, product, error, g;
    box::Found at{};

    explicit Point(size_t n) : b(n), product(n), error(n), g(n) {}
    bool strange() const { return stacks::strange(at.gap) || stacks::strange(at.primal) || stacks::strange(at.value); }
};

enum class End { between, met, indefinite, unpolished };

struct Run {
    const box::Machine& m;
    const double* K;
    double entry_error, tol;
    int64_t limit;
    std::vector<double> b, g;
    Point best;
    int64_t steps = 0, systems = 0, idle = 0, turns = 0, budget;
    double work = 0.0, spent = 0.0, eps = 0.0, resolution = 0.0, value = 0.0;
    bool warm = false, several = false, reached = false;
    // of the Newton steps that did not end
    active::Report tried{};

    Run(const box::Machine& machine, const double* kernel, double errors, double wanted, int64_t most, const double* start)
        : m(machine), K(kernel), entry_error(errors), tol(wanted), limit(most), b(start, start + m.n), g(m.n), best(m.n),
          budget(std::max<int64_t>(5 * int64_t(m.n), 1000)) {}

    void look(const std::vector<double>& from, Point& here) const {
        here.b = from;
        here.at = box::look(m, K, 0.0, entry_error, here.b.data(), here.product.data(), here.error.data(), here.g.data());
    }

    bool met(const Point& here) const { return here.at.gap <= tol * std::abs(here.at.primal); }

    smo::Report descend(int64_t most, bool shrink) {
        return smo::solve(K, m.n, m.ridge, m.lo, m.hi, m.kink, b.data(), g.data(), shrink ? eps : 1.0, most, shrink);
    }

    void begin() {
        box::balance(m, b.data());
        box::multiply(m, K, b.data(), g.data());
        look(b, best);
        b = best.b;
        g = best.g;
        resolution = best.at.resolution;
        value = best.at.value;
        const auto used = std::count_if(b.begin(), b.end(), [](double x) { return x != 0.0; });
        warm = used > 0;
        several = used > 1;
    }

    // at most so many rounds; those that are long, or have numbers that are not finite, are left
    End go(int64_t most) {
        Point here(m.n), there(m.n);
        double all = 0.0;
        while (!best.strange()) {
            if (met(best)) return End::met;
            const int64_t room = std::min(budget, limit - steps);
            all += double(room) * double(m.n);
            if (turns == most || room <= 0 || idle >= PATIENCE || all > CHUNK) break;
            ++turns;
            const double before = best.at.gap;
            if (eps == 0.0) eps = std::max(1e-2 * descend(0, false).violation, 1e-300);
            eps = std::max(eps, resolution);
            const smo::Report report = descend(room, true);
            if (report.curvature < -NEGATIVE) return End::indefinite;
            steps += report.steps;
            work += double(report.steps) * double(m.n);
            reached = report.violation <= eps;
            tried = {};
            look(b, here);
            if (here.strange()) return End::unpolished;
            // the free set after a first coarse round is rarely the final one
            const bool near = !reached || ((several || turns > 1) && here.at.gap <= 1e-2 * std::abs(here.at.primal));
            int64_t solved = 0;
            if (near && !met(here) && steps < limit) {
                there.b = b;
                there.g = g;
                const double most = work / SYSTEM_COST;
                tried = active::solve(K, m, 0.0, there.b.data(), there.g.data(), most, SHARE * most, MOST_SYSTEMS, FEW);
                if (!tried.solved && (tried.systems || tried.left)) return End::unpolished;
                solved = tried.systems;
                if (solved) {
                    systems += solved;
                    work = 0.0;
                    const std::vector<double> from = there.b;
                    look(from, there);
                    if (!there.strange() && there.at.gap < here.at.gap) {
                        std::swap(here, there);
                        b = here.b;
                        g = here.g;
                    }
                }
            }
            spent += 1.0 + double(solved);
            const bool falling = here.at.value < value - 1e-9 * std::abs(value);
            resolution = here.at.resolution;
            value = here.at.value;
            if (here.at.gap < best.at.gap) std::swap(best, here);
            idle = falling || best.at.gap < 0.9 * before ? 0 : idle + 1;
            if (reached) {
                const double share = best.at.gap > 0.0 ? tol * std::abs(best.at.primal) / best.at.gap : 1.0;
                eps *= std::min(std::max(0.3 * share, 1e-2), 0.3);
            } else {
                budget *= 2;
            }
        }
        return End::between;
    }
};

}  // namespace rounds
