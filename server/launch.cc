// Launching kernels, and what can be set on them.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "server/cluster.h"
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {
Kernel* find_kernel(Session& session, uint64_t module_id, uint32_t index, CUresult* result) {
  *result = CUDA_SUCCESS;
  Module* module = session.modules().find_ready(module_id);
  if (module == nullptr || index >= module->kernels.size() || session.bound() == nullptr) {
    return nullptr;
  }
  Kernel* kernel = &module->kernels[index];
  if (kernel->context != session.bound()) {
    if (kernel->kernel == nullptr) return nullptr;  // a module's kernel stays in its context
    auto known = kernel->functions.find(session.bound());
    if (known == kernel->functions.end()) {
      if (!charge_variables(&session.memory(), module, session.bound())) {
        *result = CUDA_ERROR_OUT_OF_MEMORY;
        return kernel;
      }
      // A guest says before that it will use it here, and a helper has got it then.
      CUfunction function = nullptr;
      const auto prepared = module->prepared.find({session.bound(), index});
      if (prepared != module->prepared.end())
        function = prepared->second->load(std::memory_order_acquire);
      if (function == nullptr) {
        *result = session.driver().cuKernelGetFunction(&function,
                                                       kernel_in(*module, index, session.bound()));
      }
      if (*result != CUDA_SUCCESS) return kernel;
      known = kernel->functions.emplace(session.bound(), function).first;
    }
    kernel->function = known->second;
    kernel->context = session.bound();
  }
  return kernel;
}

namespace {

// cuLaunchCooperativeKernel takes no packed parameters; the attribute says the same.
CUresult launch_with_attributes(const DriverTable& driver, CUfunction function,
                                const wire::LaunchArgs& args, CUstream stream, void** extra) {
  if (driver.cuLaunchKernelEx == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if ((args.flags & protocol::kLaunchCooperative) != 0) {
    CUlaunchAttribute& cooperative = attributes[count++];
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
  }
  if (args.cluster != 0) {
    CUlaunchAttribute& cluster = attributes[count++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value = cluster_value(args.cluster);
  }
  CUlaunchConfig config = {};
  config.gridDimX = args.grid[0];
  config.gridDimY = args.grid[1];
  config.gridDimZ = args.grid[2];
  config.blockDimX = args.block[0];
  config.blockDimY = args.block[1];
  config.blockDimZ = args.block[2];
  config.sharedMemBytes = args.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return driver.cuLaunchKernelEx(&config, function, nullptr, extra);
}

// Launches of one kernel with as many threads take about as long.
uint64_t kind_of(const wire::LaunchArgs& args, const Kernel* kernel) {
  const uint64_t blocks = uint64_t{args.grid[0]} * args.grid[1] * args.grid[2];
  const uint64_t threads = uint64_t{args.block[0]} * args.block[1] * args.block[2];
  constexpr uint64_t kMix = 0x9e37'79b9'7f4a'7c15;  // 2^64 / golden ratio: spreads what is close
  const uint64_t mixed =
      ((reinterpret_cast<uintptr_t>(kernel->function) * kMix ^ blocks) * kMix ^ threads) * kMix;
  return mixed ^ mixed >> 32;
}

}  // namespace

bool handle_Launch(Session& session, const wire::LaunchArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  CUresult result = CUDA_SUCCESS;
  Kernel* kernel = find_kernel(session, args.module, args.index, &result);
  if (kernel == nullptr) return session.malformed(record, "unknown kernel");
  // The driver reads as many bytes as the kernel has parameters, whatever size it is told.
  if (args.param_bytes != record.blob().size() || args.param_bytes < kernel->param_bytes) {
    return session.malformed(record, "parameter bytes");
  }
  if ((args.flags & ~protocol::kLaunchCooperative) != 0 || !good_cluster(args.cluster))
    return session.malformed(record, "launch flags");
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  session.figures().kernels(1);
  return session.submit(
      stream, record,
      [&session, args, context = stream->context, function = kernel->function,
       bytes = size_t{kernel->param_bytes}](const DriverTable& driver, CUstream handle,
                                            const std::byte* blob) mutable {
        if (session.prints()) [[unlikely]]
          session.publish_output();  // a launch lets a driver print, too
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(blob),
                         CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
        return session.watchdog().watch(context, handle, 1, [&] {
          if ((args.flags | args.cluster) != 0) {
            return launch_with_attributes(driver, function, args, handle,
                                          bytes == 0 ? nullptr : extra);
          }
          return driver.cuLaunchKernel(
              function, args.grid[0], args.grid[1], args.grid[2], args.block[0], args.block[1],
              args.block[2], args.shared_bytes, handle, nullptr, bytes == 0 ? nullptr : extra);
        });
      },
      {.blob = record.blob().bytes, .work = {kUnknownCost, kind_of(args, kernel)}});
}

// The driver may load, even compile, so a helper asks it.
bool handle_KernelUse(Session& session, const wire::KernelUseArgs& args, const Record& record) {
  Context* const context = session.bound();
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  const std::shared_ptr<Module> module = session.modules().find(args.module);
  if (context == nullptr || module == nullptr ||
      session.modules().find_ready(args.module) != module.get() || module->library == nullptr ||
      args.index >= module->kernels.size())
    return session.malformed(record, "unknown kernel");
  if (!charge_variables(&session.memory(), module.get(), context))
    return session.complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
  Module::Prepared& place = module->prepared[{context, args.index}];
  if (place == nullptr) place = std::make_shared<std::atomic<CUfunction>>(nullptr);
  session.pool().post([&session, module, context, place, reply = record.reply(),
                       kernel = kernel_in(*module, args.index, context)] {
    const DriverTable& driver = session.driver();
    wire::KernelUseReply answer;
    CUfunction function = nullptr;
    CUresult result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const Rundown::Use use(&context->use); use) {
      result = driver.cuCtxSetCurrent(context->handle);
      if (result == CUDA_SUCCESS) result = driver.cuKernelGetFunction(&function, kernel);
      for (int i = 0; result == CUDA_SUCCESS && i < CU_FUNC_ATTRIBUTE_MAX; ++i) {
        int value = 0;  // what is not known to this driver
        (void)driver.cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(i), function);
        answer.attributes[i] = value;
      }
    }
    // release: partner is find_kernel.
    if (result == CUDA_SUCCESS) place->store(function, std::memory_order_release);
    session.channel().replies().complete_with(reply, session.noted(result, context), answer);
  });
  return true;
}
static_assert(CU_FUNC_ATTRIBUTE_MAX <= std::size(wire::KernelUseReply{}.attributes));

bool handle_FunctionSetAttribute(Session& session, const wire::FunctionSetAttributeArgs& args,
                                 const Record& record) {
  CUresult result = CUDA_SUCCESS;
  Kernel* kernel = find_kernel(session, args.module, args.index, &result);
  if (kernel == nullptr) return session.malformed(record, "unknown kernel");
  if (result == CUDA_SUCCESS) {
    result = session.driver().cuFuncSetAttribute(
        kernel->function, static_cast<CUfunction_attribute>(args.attribute), args.value);
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_FunctionSetCacheConfig(Session& session, const wire::FunctionSetCacheConfigArgs& args,
                                   const Record& record) {
  CUresult result = CUDA_SUCCESS;
  Kernel* kernel = find_kernel(session, args.module, args.index, &result);
  if (kernel == nullptr) return session.malformed(record, "unknown kernel");
  if (result == CUDA_SUCCESS) {
    result = session.driver().cuFuncSetCacheConfig(kernel->function,
                                                   static_cast<CUfunc_cache>(args.config));
  }
  return session.complete(record, result, nullptr, 0);
}

}  // namespace vgpu::server
