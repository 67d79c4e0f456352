// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ERROR_HPP
#define VOCABLOSS_ERROR_HPP

/// \file
/// \brief What the library throws. Every message names the argument, the values found and the remedy.

#include <stdexcept>
#include <string>

namespace vocabloss {

/// A precondition of a call does not hold: extents, strides, aliasing, options.
class InvalidArgument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The asked path cannot run this problem; the message says why and which one can.
class PathRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The build has no such backend; the message names the CMake option that switches it on.
class BackendMissing : public PathRefused {
 public:
  using PathRefused::PathRefused;
};

/// There is not enough memory; the message names the bytes needed and, where known, the bytes there are.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ranks could not exchange what they had to: a library's error, a lost rank, or a time limit that passed. The
/// communicator cannot be used any more.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A CUDA call failed; the message holds the call and CUDA's own text.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace Impl {

/// Throws InvalidArgument unless `holds`. The message is built by the caller only when it is needed: pass a lambda.
template <class Message>
void expects(bool holds, Message&& message) {
  if (!holds) throw InvalidArgument("vocabloss: " + message());
}

}  // namespace Impl

}  // namespace vocabloss

#endif
