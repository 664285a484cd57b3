// Sizes of arrays, checked before anything is read or written: nanobind checks only dtype, dimensions and contiguity.
// A check costs a few comparisons, and one pass over an index.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace sizes {

[[noreturn]] inline void refuse(const std::string& message) { throw nb::value_error(message.c_str()); }

inline std::string in_words(std::initializer_list<size_t> shape) {
    std::string text = "(";
    for (size_t length : shape) text += std::to_string(length) + ", ";
    // one entry keeps its comma, as Python writes it
    if (shape.size() > 1) text.resize(text.size() - 2);
    else if (shape.size() == 1) text.pop_back();
    return text + ")";
}

template <class Array>
void expect(const char* name, const Array& array, std::initializer_list<size_t> shape) {
    bool same = array.ndim() == shape.size();
    size_t axis = 0;
    for (size_t length : shape) same = same && array.shape(axis++) == length;
    if (same) return;
    std::string got = "(";
    for (size_t k = 0; k < array.ndim(); ++k) got += (k ? ", " : "") + std::to_string(array.shape(k));
    refuse(std::string("`") + name + "` must have shape " + in_words(shape) + ", got " + got +
           (array.ndim() == 1 ? ",)" : ")"));
}

template <class Array>
void expect_rows(const char* name, const Array& array) {
    if (array.shape(0) == 0) refuse(std::string("`") + name + "` must hold at least one row, got none");
}

// every entry of an index lies in [0, length)
template <class Index>
void expect_inside(const char* name, const Index& index, size_t length) {
    for (size_t k = 0; k < index.shape(0); ++k)
        if (uint64_t(index(k)) >= length)
            refuse(std::string("`") + name + "` must hold integers from 0 to " + std::to_string(length) + " - 1, got " +
                   std::to_string(index(k)));
}

// a single number in [0, length)
inline void expect_index(const char* name, int64_t value, size_t length) {
    if (uint64_t(value) >= length)
        refuse(std::string("`") + name + "` must lie from 0 to " + std::to_string(length) + " - 1, got " + std::to_string(value));
}

// offsets[0] <= offsets[1] <= ... within [0, length]
template <class Index>
void expect_offsets(const char* name, const Index& offsets, size_t length) {
    bool good = offsets.shape(0) > 0;
    for (size_t k = 0; good && k < offsets.shape(0); ++k)
        good = offsets(k) >= (k ? offsets(k - 1) : 0) && uint64_t(offsets(k)) <= length;
    if (!good)
        refuse(std::string("`") + name + "` must rise from 0 or more to at most " + std::to_string(length) +
               ", in at least one entry");
}

}  // namespace sizes
