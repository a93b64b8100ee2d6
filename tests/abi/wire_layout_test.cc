// Records written through wire.h read the same through flatc's structs of commands.fbs.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "commands_generated.h"
#include "wire.h"

namespace vgpu {
namespace {

// Different bytes everywhere, so that a field at another offset reads another value.
template <typename T>
T patterned() {
  T value;
  unsigned char bytes[sizeof value];
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + 1);
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// The same bytes as patterned<Wire>(), seen through the schema's struct.
template <typename Flat, typename Wire>
const Flat& flat_view() {
  static Flat flat;
  const Wire wire = patterned<Wire>();
  std::memcpy(static_cast<void*>(&flat), &wire, sizeof flat);
  return flat;
}

// Compares bit patterns: the pattern need not be a number as a float.
template <typename A, typename B>
bool same_bits(A a, B b) {
  static_assert(sizeof a == sizeof b);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

#define CHECK_STRUCT(name)                                \
  static_assert(sizeof(fbs::name) == sizeof(wire::name)); \
  static_assert(alignof(fbs::name) >= alignof(wire::name));
#define CHECK_FIELD(name, field, getter)
#define CHECK_ELEMENT(name, field, getter, index)
#include "wire_check.inc"
#undef CHECK_STRUCT
#undef CHECK_FIELD
#undef CHECK_ELEMENT

TEST(WireLayout, FieldsStandWhereTheSchemaSays) {
#define CHECK_STRUCT(name)
#define CHECK_FIELD(name, field, getter)                                                     \
  EXPECT_TRUE(                                                                               \
      same_bits(patterned<wire::name>().field, flat_view<fbs::name, wire::name>().getter())) \
      << #name "." #field;
#define CHECK_ELEMENT(name, field, getter, index)                                 \
  EXPECT_TRUE(same_bits(patterned<wire::name>().field[index],                     \
                        flat_view<fbs::name, wire::name>().getter()->Get(index))) \
      << #name "." #field "[" #index "]";
#include "wire_check.inc"
}

}  // namespace
}  // namespace vgpu
