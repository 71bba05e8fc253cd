// A cubin's machine code as text, by NVIDIA's disassembler, which is found at run time.
#pragma once

#include <filesystem>
#include <string>

#include "compiler/cubin.h"

namespace smla::core {

// SMLA_NVDISASM (a file), then nvdisasm and cuobjdump in PATH, CUDA_HOME/bin, CUDA_PATH/bin,
// /usr/local/cuda*/bin and NVIDIA's and Triton's Python wheels of the active environment. Throws ToolError
// (no_disassembler) that lists the places and the packages that bring one.
std::filesystem::path find_disassembler();

// Runs it. Throws ToolError (no_disassembler) with its words when it refuses the cubin (older than the arch).
std::string disassemble(const Cubin& cubin);

}  // namespace smla::core
