// std::visit with one lambda for each alternative.
#pragma once

namespace holdfast {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace holdfast
