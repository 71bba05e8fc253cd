// A C++20 program of the installed package: asks what would run, without a GPU.
#include <iostream>
#include <smla/smla.hpp>

int main() {
  const smla::Support good = smla::supported({.heads = 64, .causal = true}, "sm_90a");
  const smla::Support bad = smla::supported({.heads = 130}, "sm_90a");
  if (!good || bad) return 1;
  try {
    smla::default_scale({.heads = 0});
    return 1;
  } catch (const smla::Error& error) {
    if (error.status() != smla::Status::invalid_argument) return 1;
  }
  std::cout << "smla " << smla::version() << "\n" << good.why << "\n" << bad.why << "\n";
  return 0;
}
