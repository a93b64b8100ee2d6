// Code of a guest: uploads on their way in, loaded modules and libraries, their kernels.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_MODULE_H_
#define VGPU_SERVER_MODULE_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver_table.h"
#include "server/handles.h"
#include "server/image_bytes.h"
#include "server/quota.h"

namespace vgpu::server {

struct Context;
class GuestMemory;

inline constexpr uint64_t kImageBytesMax = uint64_t{1} << 30;   // one image
inline constexpr uint64_t kUploadBytesMax = uint64_t{2} << 30;  // all that are on their way
inline constexpr uint64_t kUploadsMax = 256;

struct KernelParam {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct Kernel {
  CUfunction function = nullptr;     // in `context`
  CUkernel kernel = nullptr;         // of a library, else null
  const Context* context = nullptr;  // a library's kernel: in which it was used last
  // A library's kernel has one function for each context: those that are known. The consumer's.
  std::map<const Context*, CUfunction> functions;
  std::string name;
  std::vector<KernelParam> params;
  uint64_t param_bytes = 0;
};

struct LoadRequest;

// A variable that the guest has asked for, and may therefore copy to and from.
struct Global {
  uint64_t bytes = 0;
  const Context* context = nullptr;  // its memory goes with this, or with the module
};

// A library once more, for a context that has begun a new life while the driver's goes on: there
// its variables have their first values. Some context is current when it goes.
struct RenewedLibrary {
  explicit RenewedLibrary(const DriverTable* table) : driver(table) {}
  RenewedLibrary(const RenewedLibrary&) = delete;
  RenewedLibrary& operator=(const RenewedLibrary&) = delete;
  ~RenewedLibrary() {
    if (library != nullptr) (void)driver->cuLibraryUnload(library);
  }

  const DriverTable* const driver;
  CUlibrary library = nullptr;
  std::vector<CUkernel> kernels;  // in the order of Module::kernels
};

// Loaded by a helper thread, used by the consumer once `ready` is seen.
struct Module {
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  Context* context = nullptr;
  std::vector<Kernel> kernels;
  std::vector<uint8_t> layout;           // the encoded module layout
  std::shared_ptr<LoadRequest> request;  // of a library: the driver reads its image in place
  std::map<uint64_t, Global> globals;    // by address; the consumer's
  // Of a library, by contexts; in all others it is `library`. The consumer's.
  std::map<const Context*, std::unique_ptr<RenewedLibrary>> renewed;
  std::set<const Context*> stale;  // to be renewed before they use it again; the consumer's
  uint64_t variable_bytes = 0;     // in each context that has it
  // What these take of the quota, by contexts. The helper's until `ready`, then the consumer's.
  std::map<const Context*, std::shared_ptr<Charge>> charges;
  // Functions that a helper has got or gets, by context and kernel: null until then. The consumer's
  // but for what they point to.
  using Prepared = std::shared_ptr<std::atomic<CUfunction>>;
  std::map<std::pair<const Context*, uint32_t>, Prepared> prepared;
  std::atomic<bool> ready{false};  // release by the helper, acquire by the consumer
  std::atomic<bool> loading{true};
};

struct ModuleTable {
  struct Upload {
    ImageBytes bytes;
    uint64_t filled = 0;
  };
  std::unordered_map<uint64_t, Upload> uploads;
  uint64_t upload_bytes = 0;
  // The bytes of an upload, once it is complete; it is gone then.
  bool take_upload(uint64_t id, ImageBytes* bytes);
  // Modules and libraries are minted apart, so the same index may stand for one of each.
  HandleTable<std::shared_ptr<Module>> modules, libraries;

  std::shared_ptr<Module> find(uint64_t id) const {
    if (auto* found = modules.find(id)) return *found;
    if (auto* found = libraries.find(id)) return *found;
    return nullptr;
  }
  // Loaded, and not gone with its context.
  Module* find_ready(uint64_t id) const;
};

// Charges the module's variables in the context, unless they are; false: the quota does not reach.
bool charge_variables(GuestMemory* memory, Module* module, const Context* context);

// The guest may no longer copy to and from the module's variables; nullptr: in any context. Whether
// it might.
bool forget_globals(GuestMemory* memory, Module* module, const Context* context = nullptr);

// What a load was asked for, and what came of it.
struct LoadRequest {
  ImageBytes image;
  bool library = false;
  uint32_t log_bytes = 0;
  uint32_t max_registers = 0;       // 0 = not given
  int32_t optimization_level = -1;  // -1 = not given
  bool prints = false;              // out: kernels may print
  std::string log;                  // out: what the driver's compiler said
};

// Loads the image in the current context and enumerates its kernels; fills module->layout. Blocks
// while the driver compiles. Thread-safe.
CUresult load_module(const DriverTable& driver, LoadRequest* request, Module* module);
CUresult load_library(const DriverTable& driver, LoadRequest* request, Module* module);
// A context ends: the guest may no longer use its variables and functions of the module. A library
// that a primary one has used is stale there, as the driver's context may go on.
void forget_uses(GuestMemory* memory, Module* module, const Context* context);
// Loads a library again for the context, which is current, if it is stale there. A failure leaves
// it as it was. Blocks while the driver compiles.
CUresult renew_library(const DriverTable& driver, Module* module, const Context* context);
// Name, parameters and attributes of one kernel. `attributes` come in the order of
// CUfunction_attribute.
CUresult describe_kernel(const DriverTable& driver, Kernel* kernel,
                         std::vector<int32_t>* attributes);
// Runs one of the driver's loaders with the request's options; *log is what the compiler says.
using JitLoader = std::function<CUresult(unsigned count, CUjit_option* options, void** values)>;
CUresult with_jit_options(const LoadRequest& request, std::string* log, const JitLoader& load);
// All of it, on a helper thread: charges the variables, loads in module->context, describes the
// kernels, fills module->layout.
CUresult load_code(const DriverTable& driver, GuestMemory* memory, LoadRequest* request,
                   Module* module);

// A library, or its kernel of this place, in a context; of a module null.
CUlibrary library_in(const Module& module, const Context* context);
CUkernel kernel_in(const Module& module, uint32_t index, const Context* context);

class Session;
// The kernel in the bound context; nullptr = there is none, or *result says what the driver said.
Kernel* find_kernel(Session& session, uint64_t module_id, uint32_t index, CUresult* result);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_MODULE_H_
