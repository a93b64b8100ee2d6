// Turns one kernel into one LLVM function that runs a warp. Included by the emit_*.cc files only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <string>
#include <vector>

#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/atomic_op.h"
#include "softgpu/jit/fragment.h"
#include "softgpu/passes/device_call.h"
#include "softgpu/passes/kernel.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {

struct SurfaceOp;
enum class TensorOp : uint32_t;

// Values: a uniform or affine register is a scalar (of lane 0), any other a vector of 32 lanes;
// both live in allocas that LLVM turns into SSA form. A block runs under `mask_`, an i32 with one
// bit per lane.
class Emitter {
 public:
  using Value = llvm::Value;
  using Instruction = ptx::Instruction;
  using Operand = ptx::Operand;
  using Type = ptx::Type;

  Emitter(const Kernel& kernel, const Variant& variant, const SymbolResolver& resolver,
          llvm::Module* module);
  // The function `name`; nullptr and a diagnostic when an instruction is not supported.
  llvm::Function* run(const std::string& name, Diagnostic* error);
  uint32_t save_bytes() const { return save_bytes_max_; }
  // From here on what is not supported is put on the list and left out instead of ending run().
  void collect_refusals(std::vector<Diagnostic>* list) { refusals_ = list; }
  // Module-scope variables whose addresses the code reads from WarpContext::symbols, in that order.
  const std::vector<std::string>& symbols() const { return symbols_; }

 private:
  using Handler = void (Emitter::*)(const Instruction&);
  static const std::map<std::string, Handler>& handlers();
  void unsupported(const Instruction& in, const std::string& why = "");
  void refuse(Diagnostic diagnostic);

  // emit_core.cc: types, registers, operands
  llvm::Type* int_type(unsigned bits) { return llvm::Type::getIntNTy(context_, bits); }
  llvm::Type* scalar_type(const Type& t);
  llvm::Type* vector_of(llvm::Type* t) { return llvm::FixedVectorType::get(t, variant_.lanes); }
  llvm::Type* shaped(llvm::Type* scalar, Value* like);
  static bool is_vector(Value* v) { return v->getType()->isVectorTy(); }
  Value* splat(Value* v) { return is_vector(v) ? v : b_.CreateVectorSplat(variant_.lanes, v); }
  void unify(Value** a, Value** b);
  void unify(Value** a, Value** b, Value** c);
  Value* iota(unsigned bits);
  Value* constant(llvm::Type* t, uint64_t v) { return llvm::ConstantInt::get(t, v); }
  Value* i32(uint64_t v) { return constant(int_type(32), v); }
  Value* i64(uint64_t v) { return constant(int_type(64), v); }
  Value* as(Value* v, llvm::Type* scalar);  // same bits, or truncated / zero extended
  Value* mask_vector(Value* mask);
  Value* lane_ids();                      // %laneid of each lane, i32
  Value* mask_bits(Value* vector_of_i1);  // i32 from <32 x i1> or from a uniform i1
  Value* context_field(size_t offset, llvm::Type* t);
  void set_context_field(size_t offset, Value* v);
  bool scalar_register(int r) const { return kernel_.stride[r] != Kernel::kNotAffine; }
  int64_t stride_of(const Operand& o) const;          // kNotAffine when lanes are unrelated
  Value* raw_register(int r);                         // scalar of lane 0, or the vector
  Value* register_value(int r);                       // uniform scalar or full vector
  Value* get(const Operand& o, const Type& t);        // uniform scalar or full vector of type t
  Value* get_lane0(const Operand& o, const Type& t);  // scalar; only for operands with a stride
  Value* immediate(const Operand& o, const Type& t);
  Value* special(const std::string& name);
  Value* symbol_address(const Operand& o);  // lane 0's
  Value* global_address(const std::string& name);
  Value* predicate(const Operand& o);              // i1 or <32 x i1>
  bool lane0_result(const Instruction& in) const;  // the destination is kept as a scalar
  Value* source(const Instruction& in, size_t i, const Type& t);
  void set(const Operand& destination,
           Value* v);  // converts to the register's type, masks the write
  void set_register(int r, Value* v);

  // emit_control.cc: blocks, suspension
  void block_body(int b);
  void first_lane(Value* lanes);
  void next_lane();
  void terminate(int b);
  void add_pending(int b, Value* mask);
  void dispatch(const std::vector<int>& candidates);
  void spread_wide();
  void keep_in_memory_when_wide();  // emit_storage.cc
  void try_blocks(const std::vector<int>& order, Value* lanes);
  void go_on(int b, const std::vector<int>& candidates);
  void poll(int b, const std::vector<int>& candidates);
  Value* spin(const std::vector<int>& candidates);
  llvm::MDNode* seldom();
  void flip(const std::vector<int>& candidates);
  void yield(const std::vector<int>& candidates, bool flips);
  void suspend(const std::vector<int>& blocks, int code);
  void save_slots(const std::vector<int>& blocks,
                  std::vector<std::pair<llvm::AllocaInst*, uint32_t>>* slots);
  std::vector<int> frontier_of(int b) const;
  void nanosleep(const Instruction& in);
  void emit_guarded(const Instruction& in);
  void emit_plain(const Instruction& in);
  void trap(const Instruction& in);

  // emit_integer.cc
  void add_sub(const Instruction&);
  void multiply(const Instruction&);
  void divide(const Instruction&);
  void min_max(const Instruction&);
  void bitwise(const Instruction&);
  void shift(const Instruction&);
  void funnel_shift(const Instruction&);
  void bit_count(const Instruction&);
  void bit_field(const Instruction&);
  void absolute(const Instruction&);
  void negate(const Instruction&);
  void sad(const Instruction&);

  // emit_bits.cc
  void bit_mask(const Instruction&);
  void permute_bytes(const Instruction&);
  Value* permute_selector(const std::string& mode, Value* c);
  void lop3(const Instruction&);
  void find_nth_set(const Instruction&);
  void dot_product(const Instruction&);

  // emit_matrix.cc
  void mma(const Instruction&);
  void wmma(const Instruction&);
  void matrix_product(const Instruction& in, const MatrixShape& s, MatrixType a, MatrixType b,
                      MatrixType c, MatrixType d, uint32_t flags, Value* extra = nullptr,
                      Value* words = nullptr);
  bool matrix_extra(const Instruction& in, const MatrixShape& s, MatrixType a, Value** extra,
                    Value** words);
  void move_tiles(const Instruction&);
  void transpose_tile(const Instruction&);
  Value* pass_fragment(const Operand& o, unsigned bits);
  Value* fragment_room(const Operand& o, unsigned bits);
  void take_fragment(const Operand& o, Value* slot, unsigned bits);

  // emit_video.cc
  void video(const Instruction&);
  void video_lanes(const Instruction& in, unsigned count);
  Value* video_operand(const Operand& o, const Type& t);
  Value* video_operation(const Instruction& in, Value* a, Value* b);
  Value* video_product(const Instruction& in, bool is_signed, Value* a, Value* b);
  Value* video_clamp(Value* v, unsigned bits, bool is_signed);
  Value* video_accumulate(const Instruction& in, Value* r, Value* c, bool is_signed);

  // emit_carry.cc: chains through the carry flag
  void carry_add_sub(const Instruction&);
  void carry_multiply(const Instruction&);
  void add_with_carry(const Instruction& in, const Type& t, Value* a, Value* b);
  Value* product(const Instruction& in, const Type& t);

  // emit_float.cc: on the widened values of one element (f32 or f64)
  using Values = std::vector<Value*>;
  void real(const Instruction&);  // any floating-point form: by elements of pairs
  Value* real_element(const Instruction& in, const Type& t, Values args);
  Value* plain_arithmetic(const Instruction& in, const Type& t, const Values& args);
  Value* least_or_most(const Instruction& in, Value* a, Value* b);
  Value* sign_change(const Instruction& in, Value* v);
  Value* approximate(const Instruction& in, Value* v);
  void copysign(const Instruction&);
  void testp(const Instruction&);
  Value* math_call(const char* helper, Value* v);
  Value* saturate(Value* v);
  Value* rectify(Value* v);
  Value* flush(Value* v);
  Value* canonical_nan(Value* like);

  // emit_rounding.cc
  static std::string direction(const Instruction& in);  // "rz", "rm", "rp", or "" for to nearest
  Value* rounded(llvm::Intrinsic::ID constrained, const std::string& mode, llvm::Type* result,
                 const Values& args);

  // emit_small_float.cc: halves and bfloats
  Value* widen_small(Value* v, const Type& t);   // to f32
  Value* narrow_small(Value* v, const Type& t);  // from f32 or f64, to nearest
  Value* fused_small(const Instruction& in, const Type& t, Value* a, Value* b, Value* c);
  Value* odd_sum(Value* p, Value* c);  // f64, rounded to odd: a second rounding does no harm
  Value* flush_half(Value* v);         // bits
  Value* split(Value* pair, unsigned half);
  Value* join(Value* low, Value* high);
  void pair_integers(const Instruction& in, const Type& t);

  // emit_convert.cc
  void mov(const Instruction&);
  void cvta(const Instruction&);
  void selp(const Instruction&);
  void slct(const Instruction&);
  void isspacep(const Instruction&);
  Value* in_constants(Value* v, bool constants);

  // emit_compare.cc
  void setp(const Instruction&);
  void set_compare(const Instruction&);
  Value* compare(const std::string& op, const Type& t, Value* a, Value* b);
  Values comparisons(const Instruction& in, const Type& t, bool negated);

  // emit_cvt.cc
  void cvt(const Instruction&);
  Value* cvt_to_float(const Instruction& in, const Type& from, const Type& to, Value* v);
  Value* integer_to_double(const Type& from, Value* v);
  Value* cvt_integers(const Instruction& in, const Type& from, const Type& to, Value* v);
  Value* round_to_integral(Value* v, const Instruction& in);
  void cvt_pack(const Instruction&);

  // emit_cvt_small.cc: pairs, tf32 and floats of 8 bits and less
  bool cvt_small(const Instruction& in);  // false when the form is another's
  void cvt_to_pair(const Instruction& in, const std::string& to, const std::string& from);
  void cvt_from_pair(const Instruction& in, const std::string& to, const std::string& from);
  Value* encode_small(Value* v, uint32_t format, const Instruction& in);
  Value* lane_call(const char* helper, llvm::Type* result, const Values& args, uint32_t code);

  // emit_memory.cc
  struct Address {
    Value* lane0 = nullptr;  // when stride is known
    int64_t stride = 0;
    Value* lanes = nullptr;         // <32 x i64> when it is not
    std::vector<Value*> row_bases;  // then, where row_stride is known: the first lane's of each row
    int64_t row_stride = 0;
    bool shared = false;  // in the block's window, for certain
  };
  static bool ordered(const Instruction& in);
  void load(const Instruction&);
  void load_parts(const Instruction&);
  void store(const Instruction&);
  void prefetch(const Instruction&);
  void fence(const Instruction&);
  Address address(const Operand& o, const Instruction& in);
  Address offset(const Address& a, int64_t bytes);
  Value* lanes_of(const Address& a);
  Value* pointer(Value* address) {
    return b_.CreateIntToPtr(address, llvm::PointerType::get(context_, 0));
  }
  Value* load_element(const Address& a, llvm::Type* t, uint32_t bytes, bool volatile_access);
  bool moves_whole(const Instruction& in, uint32_t bytes) const;
  llvm::Type* whole_type(uint32_t bytes);
  std::vector<Value*> load_whole(const Address& a, const Type& t, uint32_t count);
  void store_whole(const Address& a, const std::vector<Value*>& values, const Type& t);
  void store_element(const Address& a, Value* v, uint32_t bytes, bool volatile_access);

  // emit_rows.cc
  struct Rows {
    std::vector<Value*> bases;  // empty: not in rows
    unsigned width = 0;         // lanes
    int64_t stride = 0;
  };
  Rows rows_of(const Address& a);
  Value* row_of(Value* vector, const Rows& rows, size_t row, uint32_t each);
  Value* row_mask(const Rows& rows, size_t row, uint32_t each);
  Value* concatenate(std::vector<Value*> parts);
  Value* load_rows(const Rows& rows, llvm::Type* t, uint32_t each);
  void store_rows(const Rows& rows, Value* v, uint32_t each);
  Value* load_row_scalars(const Rows& rows, llvm::Type* t);
  bool load_wide(const Instruction& in, const Address& a, const Type& t, uint32_t each);
  bool store_wide(const Instruction& in, const Address& a, const std::vector<Value*>& values,
                  const Type& t);

  // emit_gather.cc
  struct Half {                       // of a warp: 16 lanes
    Value *addresses, *mask, *lanes;  // mask as i16, and as <16 x i1>
    Value *first, *head;              // the first lane that runs, i64, and its address
  };
  bool inlines_memory(uint32_t bytes) const;
  void watch_access(const Instruction& in, const Address& a, uint32_t bytes);
  void watch_block(int b);
  void watch_branch(Value* taken, Value* stays);
  void check_alignment(const Address& a, uint32_t bytes);
  Value* half_of(Value* vector, unsigned half);
  Value* join_halves(Value* low, Value* high);
  void make_halves(Value* addresses, Half* halves);
  Value* lane0_of(const Half& half, uint64_t stride);
  Value* fits_stride(const Half& half, uint64_t stride);
  Value* may_be_regular(Value* addresses, uint32_t bytes, bool or_equal);
  Value* gather_anywhere(Value* addresses, llvm::Type* t);
  Value* gather_inline(Value* addresses, llvm::Type* t, uint32_t bytes, bool shared);
  void scatter_inline(Value* addresses, Value* v, uint32_t bytes);
  Value* widen_loaded(Value* v, const Type& t, const Operand& destination);

  // emit_gather_wide.cc
  bool permutes();
  Value* gather_in_windows(Value* addresses, llvm::Type* t);
  bool gather_wide(const Instruction& in, const Address& a, const Type& t, uint32_t each);
  std::vector<Value*> fetch_each(Value* addresses, llvm::Type* t, uint32_t each);
  std::vector<Value*> sort_into_lanes(const std::vector<Value*>& fetched, uint32_t each);

  // emit_sync.cc: barriers, and lanes that park until others come
  struct Barrier {
    Value *id = nullptr, *threads = nullptr, *votes = nullptr;  // id and threads: i32 or vectors
    uint32_t op = 0;
  };
  Barrier barrier_operands(const Instruction& in);
  void barrier_end(int b, const Instruction& in);
  void barrier_arrive(const Instruction& in);
  void park(int b, const Instruction& in);
  void park_warp_sync(int b, const Instruction& in, const std::vector<int>& candidates);
  void finish_parking();
  void deliver(int b, Value* released);
  void collective_result(const Instruction& in, Value* value, Value* flags);
  void collective_now(const Instruction& in);
  Value* waiting_lanes(const std::vector<int>& blocks);
  Value* member_operand(const Instruction& in);
  uint32_t collective_code(const Instruction& in);
  void collective_operands(const Instruction& in, Value** value, Value** second, Value** third);
  void elect(const Instruction&);

  // emit_atomic.cc, emit_warp.cc, emit_call.cc
  void atomic(const Instruction&);
  static uint32_t small_atomic(const Type& t);
  Value* atomic_operand(const Operand& o, const Type& t);
  Value* atomic_element(const Instruction& in, const Type& t, AtomicOp op, const Address& a,
                        Value* value, Value* second);

  // emit_cluster.cc
  Value* cluster_word(size_t offset);  // of ClusterPlace
  Value* cluster_special(const std::string& name);
  Value* own_window();  // address, i64
  void map_to_block(const Instruction&);
  static Instruction at_once(const Instruction& in);
  void count_bytes(const Instruction& in, size_t mbarrier_at);
  void multicast(const Instruction& in, Value* to, Value* from, Value* size);

  // emit_async.cc, emit_bulk.cc: copies that are done at once, and mbarriers
  void async_copy(const Instruction&);
  void bulk_copy(const Instruction&);
  static bool bulk_reduction(const Instruction& in, TensorOp* op);
  void clear_bulk(const Instruction&);
  void launch_control(const Instruction&);
  void mbarrier(const Instruction&);
  void cache_policy(const Instruction&);
  Value* place_in(const Operand& o, bool shared);  // <lanes x i64> in memory
  // emit_tensor.cc: copies of boxes that tensor maps describe
  void tensor_copy(const Instruction&);
  Value* lane_words(const std::vector<Operand>& list, const Type& t);
  void tensor_map(const Instruction&);
  Value* mbarrier_call(uint32_t op, Value* addresses, Value* value);
  void shuffle(const Instruction&);
  bool shuffle_by_constants(const Instruction& in, uint32_t mode);
  void vote(const Instruction&);
  void activemask(const Instruction&);
  void match(const Instruction&);
  void redux(const Instruction&);
  void warp_barrier(const Instruction&);
  void call_device(DeviceCall which, const std::vector<Value*>& arguments, Value* result);
  void call(const Instruction&);
  Value* lane_addresses(const Operand& o);
  void frame(const Instruction&);
  void stack_check(const Instruction&);
  void jump_table(int b, const Instruction& in);
  Value* spill(Value* vector);  // pointer to 32 values on the stack
  Value* unspill(Value* pointer, llvm::Type* scalar);
  llvm::CallInst* call_helper(const char* name, llvm::Type* result, std::vector<Value*> args);
  llvm::AllocaInst* stack_slot(llvm::Type* t);

  // emit_texture.cc
  void texture_fetch(const Instruction&);
  void texture_query(const Instruction&);
  void surface(const Instruction&);
  static bool parse_surface(const Instruction& in, SurfaceOp* op);
  Value* texture_handles(const Instruction& in, const Operand& o, size_t parts_max);
  bool store_words(const Operand& o, Value* rows, unsigned row, unsigned count,
                   const Type& first_type, const Type& type);
  Value* lane_rows(unsigned rows, unsigned bytes);
  Value* lane_row(Value* rows, unsigned row, unsigned bytes);
  void store_lane_row(Value* rows, unsigned row, unsigned bytes, Value* v);
  void take_lane_row(const Operand& d, Value* rows, unsigned row, unsigned bytes);
  Value* first_active(Value* v);

  const Kernel& kernel_;
  const Variant& variant_;
  const SymbolResolver& resolver_;
  llvm::LLVMContext& context_;
  llvm::Module* module_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  Value* warp_ = nullptr;  // WarpContext*
  std::vector<llvm::AllocaInst*> registers_, pending_, parked_;
  std::vector<llvm::BasicBlock*> blocks_;
  llvm::SwitchInst* entry_switch_ = nullptr;
  llvm::BasicBlock* finish_ = nullptr;
  // Only in functions with parking blocks: where nobody can run, and where lanes go on after a
  // wait.
  llvm::BasicBlock *settle_ = nullptr, *wake_ = nullptr;
  std::vector<int> parking_;
  // For many candidates: dispatch, flip and yield over all blocks, once per function. Made when
  // used.
  llvm::BasicBlock *dispatch_wide_ = nullptr, *flip_wide_ = nullptr, *yield_wide_ = nullptr;
  llvm::BasicBlock* wide(llvm::BasicBlock** block, const char* name);
  Value* mask_ = nullptr;  // lanes of the running block, or of the guarded instruction
  bool guarded_ = false;   // mask_ is narrower than the block's
  int block_ = 0;
  uint32_t save_bytes_max_ = 0, suspension_count_ = 0;
  std::vector<std::string> symbols_;
  bool cluster_waits_ = false;  // there is a wait for the cluster: who has left must be known
  bool failed_ = false;
  Diagnostic error_;
  std::vector<Diagnostic>* refusals_ = nullptr;
};

}  // namespace vgpu::softgpu
