// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "atomic_file.hpp"
#include "safetensors.hpp"

namespace entropy_sweep {

namespace {

constexpr std::size_t length_bytes = 8;

}  // namespace

void write_safetensors(const std::string& path, const std::vector<Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const Tensor*> order;
  for (const Tensor& tensor : tensors) order.push_back(&tensor);
  // Widest types first and a header padded to eight bytes: then every tensor in the file is aligned to its type.
  std::stable_sort(order.begin(), order.end(),
                   [](const Tensor* a, const Tensor* b) { return size_of(a->dtype) > size_of(b->dtype); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const Tensor* tensor : order) {
    if (header.contains(tensor->name))
      throw SafetensorsError(fmt::format("'{}': tensor '{}' is given twice", path, tensor->name));
    const std::size_t wanted = static_cast<std::size_t>(tensor->elements()) * size_of(tensor->dtype);
    if (tensor->dtype == Dtype::other || wanted != tensor->bytes.size()) {
      throw SafetensorsError(fmt::format("'{}': tensor '{}': type and shape take {} bytes, but {} were given", path,
                                         tensor->name, wanted, tensor->bytes.size()));
    }
    header[tensor->name] = {
        {"dtype", to_name(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {offset, offset + wanted}}};
    offset += wanted;
  }
  std::string text = header.dump();
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');
  const std::uint64_t length = text.size();

  AtomicFile file(path);
  file.write(&length, length_bytes);
  file.write(text);
  for (const Tensor* tensor : order) file.write(tensor->bytes.data(), tensor->bytes.size());
  file.commit();
}

}  // namespace entropy_sweep
