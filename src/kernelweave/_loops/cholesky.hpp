// Whether a packed triangle has a Cholesky factor, K = U'U. U is stored in panels of a few columns, row after row, so that
// the inner loop reads memory from one end to the other; nothing is unpacked or turned for it.

namespace cholesky {

constexpr size_t WIDTH = 8;  // columns of a panel
constexpr size_t ROWS = 4;   // rows that stay in registers

// out (ROWS, WIDTH) -= left' right over k rows of two panels
KW_CLONES void subtract(const double* left, const double* right, size_t k, double* out) {
    double sums[ROWS][WIDTH] = {};
    for (size_t i = 0; i < k; ++i) {
        const double *a = left + i * WIDTH, *b = right + i * WIDTH;
        for (size_t r = 0; r < ROWS; ++r)
#pragma omp simd
            for (size_t j = 0; j < WIDTH; ++j) sums[r][j] += a[r] * b[j];
    }
    for (size_t r = 0; r < ROWS; ++r)
        for (size_t j = 0; j < WIDTH; ++j) out[r * WIDTH + j] -= sums[r][j];
}

// rows of U from those of K less what earlier rows give; `own` (ROWS, WIDTH) has the columns with the numbers of the rows.
// Inverse pivots are found where these are the same columns, else read. False where a pivot is not positive.
KW_CLONES bool eliminate(const double* own, bool pivots, double* rows, double* inverse) {
    for (size_t r = 0; r < ROWS; ++r) {
        double* row = rows + r * WIDTH;
        if (pivots) {
            const double square = own[r * WIDTH + r];
            if (stacks::strange(square) || square <= 0.0) return false;
            inverse[r] = 1.0 / std::sqrt(square);
        }
        for (size_t j = 0; j < WIDTH; ++j) row[j] *= inverse[r];
        for (size_t s = r + 1; s < ROWS; ++s) {
            const double factor = own[r * WIDTH + s];
            for (size_t j = 0; j < WIDTH; ++j) rows[s * WIDTH + j] -= factor * row[j];
        }
    }
    return true;
}

// a panel of which each earlier one has WIDTH rows less
inline double* panel(double* panels, size_t p) { return panels + p * (p + 1) / 2 * WIDTH * WIDTH; }

// row after row of K + shift I into panels; entries are rounded to units in the last place of `level`, and rows and columns
// from n on are those of the identity
KW_CLONES void read(const double* P, size_t n, double shift, double level, size_t count, double* panels) {
    for (size_t i = 0; i < count * WIDTH; ++i)
        for (size_t p = i / WIDTH; p < count; ++p) {
            const size_t j0 = p * WIDTH, own = std::min(i, n - 1);
            const double* x = P + row_start(own, n) - own + j0;
            double* row = panel(panels, p) + i * WIDTH;
            if (i < j0 && j0 + WIDTH <= n) {
                for (size_t j = 0; j < WIDTH; ++j) row[j] = (x[j] + level) - level;
                continue;
            }
            for (size_t j = 0; j < WIDTH; ++j) row[j] = j0 + j < i || j0 + j >= n ? 0.0 : (x[j] + level) - level;
            if (i >= n) row[i - j0] = 1.0;
            else if (i >= j0) row[i - j0] += shift;
        }
}

// of K + shift I
inline bool definite(const double* P, size_t n, double shift, double level) {
    const size_t count = (n + WIDTH - 1) / WIDTH;
    std::unique_ptr<double[]> memory(new double[count * (count + 1) / 2 * WIDTH * WIDTH]);
    double* panels = memory.get();
    std::vector<double> inverse(count * WIDTH);
    read(P, n, shift, level, count, panels);
    for (size_t p = 0; p < count; ++p)
        for (size_t i = 0; i < (p + 1) * WIDTH; i += ROWS) {
            const size_t q = i / WIDTH, s = i % WIDTH;
            double *left = panel(panels, q) + s, *right = panel(panels, p), *rows = right + i * WIDTH;
            subtract(left, right, i, rows);
            if (!eliminate(left + i * WIDTH, p == q, rows, inverse.data() + i)) return false;
        }
    return true;
}

}  // namespace cholesky
