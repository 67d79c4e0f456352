// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_SAFETENSORS_HPP
#define ENTROPY_SWEEP_SAFETENSORS_HPP

/// \file
/// Tensors in and out of safetensors files: eight bytes of header length (little-endian), a JSON header that gives each
/// tensor's type, shape and byte range, then the bytes. Files come from anywhere, so nothing in a header is believed
/// before it is checked.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor.hpp"

namespace entropy_sweep {

/// A file opened for reading. Tensors point into it and live as long as it does.
class SafetensorsFile {
 public:
  /// Maps the file and checks the whole header. Throws SafetensorsError.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  bool contains(std::string_view name) const;

  /// The tensor of that name. Throws SafetensorsError when it is missing or of a type that this program cannot read.
  const Tensor& tensor(std::string_view name) const;

 private:
  void read_header(std::string_view header, std::span<const std::byte> data);

  std::string path_;
  void* mapping_ = nullptr;
  std::size_t size_ = 0;
  std::vector<Tensor> tensors_{};  // in the order of their bytes
};

/// Writes the tensors to `path`, whole or not at all. Byte counts must match types and shapes and names must differ
/// (SafetensorsError); a file that cannot be written is a FileError (atomic_file.hpp).
void write_safetensors(const std::string& path, const std::vector<Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_SAFETENSORS_HPP
