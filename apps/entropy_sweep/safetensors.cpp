// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace entropy_sweep {
namespace {

using Json = nlohmann::json;

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t max_header = 100'000'000;  // the limit of the format's own reader
constexpr int max_depth = 3;                       // header, tensor, list

template <class... Args>
[[noreturn]] void fail(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  throw SafetensorsError(fmt::format("'{}': {}", path, fmt::format(format, std::forward<Args>(args)...)));
}

/// Closes a descriptor on every way out of a constructor.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

/// Parses the header, refusing what the parser itself lets pass: a name given twice, and nesting without end.
Json parse_header(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> keys(max_depth + 1);
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > max_depth) fail(path, "header nested more than {} deep", max_depth);
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start && level < keys.size() - 1) keys[level + 1].clear();
    if (event == Json::parse_event_t::key && !keys[level].insert(value.get<std::string>()).second) {
      fail(path, "'{}' is given twice in the header", value.get<std::string>());
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    fail(path, "header is no JSON: {}", error.what());
  }
}

std::uint64_t unsigned_number(const std::string& path, const std::string& name, const char* field, const Json& value) {
  if (!value.is_number_unsigned()) {
    fail(path, "tensor '{}': {} holds {}, which is no whole number of at least 0", name, field,
         value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return value.get<std::uint64_t>();
}

const Json& field_of(const std::string& path, const std::string& name, const Json& entry, const char* field) {
  if (!entry.is_object())
    fail(path, "tensor '{}': its entry in the header is a {}, not an object", name, entry.type_name());
  const auto found = entry.find(field);
  if (found == entry.end()) fail(path, "tensor '{}': '{}' is missing from its entry in the header", name, field);
  return *found;
}

Tensor parse_entry(const std::string& path, const std::string& name, const Json& entry,
                   std::span<const std::byte> data) {
  Tensor tensor;
  tensor.name = name;

  const Json& dtype = field_of(path, name, entry, "dtype");
  if (!dtype.is_string()) fail(path, "tensor '{}': dtype is a {}, not a string", name, dtype.type_name());
  tensor.dtype = dtype_from_name(dtype.get<std::string>()).value_or(Dtype::other);

  const Json& shape = field_of(path, name, entry, "shape");
  if (!shape.is_array()) fail(path, "tensor '{}': shape is a {}, not a list", name, shape.type_name());
  std::int64_t elements = 1;
  for (const Json& extent : shape) {
    const std::uint64_t value = unsigned_number(path, name, "shape", extent);
    if (value > static_cast<std::uint64_t>(INT64_MAX) ||
        __builtin_mul_overflow(elements, static_cast<std::int64_t>(value), &elements)) {
      fail(path, "tensor '{}': shape {} has more elements than 64 bits count", name, shape.dump());
    }
    tensor.shape.push_back(static_cast<std::int64_t>(value));
  }

  const Json& offsets = field_of(path, name, entry, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) {
    fail(path, "tensor '{}': data_offsets is no list of two numbers", name);
  }
  const std::uint64_t begin = unsigned_number(path, name, "data_offsets", offsets[0]);
  const std::uint64_t end = unsigned_number(path, name, "data_offsets", offsets[1]);
  if (begin > end) fail(path, "tensor '{}': data_offsets [{}, {}] run backwards", name, begin, end);
  if (end > data.size()) {
    fail(path, "tensor '{}': its data end at byte {}, but the file holds {} bytes of data; is it truncated?", name, end,
         data.size());
  }
  if (tensor.dtype != Dtype::other) {
    std::uint64_t wanted = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(elements), size_of(tensor.dtype), &wanted) ||
        wanted != end - begin) {
      fail(path, "tensor '{}': {} of shape {} takes {} elements of {} bytes, but data_offsets [{}, {}] hold {} bytes",
           name, to_name(tensor.dtype), shape.dump(), elements, size_of(tensor.dtype), begin, end, end - begin);
    }
  }
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe must not hang the open
  if (file.value < 0) fail(path, "cannot be opened: {}", std::strerror(errno));
  struct stat facts {};
  if (fstat(file.value, &facts) != 0) fail(path, "cannot be examined: {}", std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) fail(path, "is no regular file");
  size_ = static_cast<std::size_t>(facts.st_size);
  if (size_ < length_bytes)
    fail(path, "{} bytes long, shorter than the {} bytes of a header length", size_, length_bytes);

  mapping_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    fail(path, "cannot be mapped: {}", std::strerror(errno));
  }
  try {
    const std::span<const std::byte> all(static_cast<const std::byte*>(mapping_), size_);
    std::uint64_t length = 0;
    std::memcpy(&length, all.data(), length_bytes);
    if (length > max_header) fail(path, "header length {} is above the format's limit of {}", length, max_header);
    if (length > size_ - length_bytes) {
      fail(path, "header length {}, but only {} bytes follow; is the file truncated?", length, size_ - length_bytes);
    }
    read_header({reinterpret_cast<const char*>(all.data() + length_bytes), length}, all.subspan(length_bytes + length));
  } catch (...) {
    munmap(mapping_, size_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (mapping_ != nullptr) munmap(mapping_, size_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      tensors_(std::move(other.tensors_)) {}

void SafetensorsFile::read_header(std::string_view text, std::span<const std::byte> data) {
  const Json header = parse_header(path_, text);
  if (!header.is_object()) fail(path_, "header is a {}, not an object", header.type_name());
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") tensors_.push_back(parse_entry(path_, name, entry, data));
  }
  // The format allows neither overlaps nor holes: both mean that header and data do not belong together.
  std::sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  std::size_t expected = 0;
  for (const Tensor& tensor : tensors_) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    if (begin != expected) {
      fail(path_, "tensor '{}': its data begin at byte {}, but the data before end at {}", tensor.name, begin,
           expected);
    }
    expected += tensor.bytes.size();
  }
  if (expected != data.size()) {
    fail(path_, "tensors end at byte {}, but the file holds {} bytes of data", expected, data.size());
  }
}

bool SafetensorsFile::contains(std::string_view name) const {
  return std::any_of(tensors_.begin(), tensors_.end(), [name](const Tensor& tensor) { return tensor.name == name; });
}

const Tensor& SafetensorsFile::tensor(std::string_view name) const {
  for (const Tensor& tensor : tensors_) {
    if (tensor.name != name) continue;
    if (tensor.dtype == Dtype::other) {
      fail(path_, "tensor '{}' has a type that cannot be read here; readable: {}", name, all_dtype_names());
    }
    return tensor;
  }
  std::string present;
  for (const Tensor& tensor : tensors_) {
    if (present.size() > 200) {
      present += ", ...";
      break;
    }
    present += (present.empty() ? "" : ", ") + tensor.name;
  }
  fail(path_, "no tensor '{}'; the file holds: {}", name, present.empty() ? "none" : present);
}

}  // namespace entropy_sweep
