// Loading code: the driver compiles, then its kernels are listed and described for the guest.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "api/cudart/image.h"
#include "api/cudart/variables.h"
#include "module_layout_generated.h"
#include "server/log.h"
#include "server/module.h"
#include "server/objects.h"

namespace vgpu::server {
namespace {

namespace fb = protocol::fb;

std::vector<uint8_t> encode_layout(const std::vector<Kernel>& kernels,
                                   const std::vector<std::vector<int32_t>>& attributes) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::KernelLayout>> tables;
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::vector<fb::KernelParam> params;
    for (const KernelParam& param : kernels[i].params) {
      params.emplace_back(static_cast<uint32_t>(param.offset), static_cast<uint32_t>(param.bytes));
    }
    const auto name = builder.CreateString(kernels[i].name);
    const auto param_vector = builder.CreateVectorOfStructs(params);
    const auto attribute_vector = builder.CreateVector(attributes[i]);
    tables.push_back(fb::CreateKernelLayout(builder, name, param_vector, attribute_vector));
  }
  const auto table_vector = builder.CreateVector(tables);
  fb::FinishModuleLayoutBuffer(builder, fb::CreateModuleLayout(builder, table_vector));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

// Names and layouts of what the driver has loaded.
CUresult describe_all(const DriverTable& driver, Module* module) {
  std::vector<std::vector<int32_t>> attributes(module->kernels.size());
  for (size_t i = 0; i < module->kernels.size(); ++i) {
    const CUresult result = describe_kernel(driver, &module->kernels[i], &attributes[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  module->layout = encode_layout(module->kernels, attributes);
  return CUDA_SUCCESS;
}

// What is asked of an image's code for the device of the current context.
struct CodeFacts {
  bool prints = true;           // kernels may call printf
  uint64_t variable_bytes = 0;  // of global and constant memory
};

// Only code that this device can run counts: a library has it for many. What cannot be looked
// through may print; that the driver can load it is then not likely.
CodeFacts look_through(const DriverTable& driver, const ImageBytes& bytes) {
  constexpr std::string_view kPrintf = "vprintf";
  CodeFacts facts;
  CUdevice device = 0;
  int major = 0, minor = 0;
  std::vector<cudart::Image> images;
  if (driver.cuCtxGetDevice == nullptr || driver.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) !=
          CUDA_SUCCESS ||
      driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) !=
          CUDA_SUCCESS ||
      !cudart::parse_images(bytes.data(), bytes.size(), &images, nullptr)) {
    return facts;
  }
  const auto capability = static_cast<uint32_t>(10 * major + minor);
  facts.prints = std::any_of(images.begin(), images.end(), [&](const cudart::Image& image) {
    const bool any_major = image.kind == cudart::Image::Kind::kPtx || image.arch == 0;
    const bool runs = image.arch <= capability && (any_major || image.arch / 10 == capability / 10);
    return runs && cudart::mentions(image, kPrintf);
  });
  facts.variable_bytes = cudart::variable_bytes(images, capability);
  return facts;
}

void unload(const DriverTable& driver, Module* module) {
  if (module->library != nullptr) (void)driver.cuLibraryUnload(module->library);
  if (module->module != nullptr) (void)driver.cuModuleUnload(module->module);
  module->library = nullptr;
  module->module = nullptr;
}

}  // namespace

CUresult load_code(const DriverTable& driver, GuestMemory* memory, LoadRequest* request,
                   Module* module) {
  const Rundown::Use use(&module->context->use);
  if (!use) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (CUresult result = driver.cuCtxSetCurrent(module->context->handle); result != CUDA_SUCCESS) {
    return result;
  }
  const CodeFacts facts = look_through(driver, request->image);
  request->prints = facts.prints;
  module->variable_bytes = facts.variable_bytes;
  if (!charge_variables(memory, module, module->context)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = request->library ? load_library(driver, request, module)
                                     : load_module(driver, request, module);
  if (result == CUDA_SUCCESS) result = describe_all(driver, module);
  if (result == CUDA_SUCCESS) return result;
  unload(driver, module);  // the guest is told that there is none
  module->charges.clear();
  return result;
}

CUresult with_jit_options(const LoadRequest& request, std::string* log, const JitLoader& load) {
  constexpr uint32_t kLogBytesMax = 1 << 20;
  const uint32_t room = std::min(request.log_bytes, kLogBytesMax);
  std::vector<char> errors(room + 1), infos(room + 1);
  std::vector<CUjit_option> options;
  std::vector<void*> values;
  const auto add = [&](CUjit_option option, uintptr_t value) {
    options.push_back(option);
    values.push_back(reinterpret_cast<void*>(value));
  };
  if (room > 0) {
    add(CU_JIT_ERROR_LOG_BUFFER, reinterpret_cast<uintptr_t>(errors.data()));
    add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, room);
    add(CU_JIT_INFO_LOG_BUFFER, reinterpret_cast<uintptr_t>(infos.data()));
    add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, room);
  }
  if (request.max_registers > 0) add(CU_JIT_MAX_REGISTERS, request.max_registers);
  if (request.optimization_level >= 0) {
    add(CU_JIT_OPTIMIZATION_LEVEL, static_cast<uintptr_t>(request.optimization_level));
  }
  const CUresult result =
      load(static_cast<unsigned>(options.size()), options.data(), values.data());
  *log = result == CUDA_SUCCESS ? infos.data() : errors.data();
  return result;
}

CUresult load_module(const DriverTable& driver, LoadRequest* request, Module* module) {
  if (driver.cuModuleEnumerateFunctions == nullptr || driver.cuModuleGetFunctionCount == nullptr) {
    log(Level::kError, "the driver cannot list a module's functions: it is older than CUDA 12.4");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUresult result = with_jit_options(
      *request, &request->log, [&](unsigned count, CUjit_option* options, void** values) {
        return driver.cuModuleLoadDataEx(&module->module, request->image.data(), count, options,
                                         values);
      });
  if (result != CUDA_SUCCESS) return result;
  unsigned count = 0;
  result = driver.cuModuleGetFunctionCount(&count, module->module);
  std::vector<CUfunction> functions(result == CUDA_SUCCESS ? count : 0);
  if (!functions.empty()) {
    result = driver.cuModuleEnumerateFunctions(functions.data(), count, module->module);
  }
  for (CUfunction function : functions) {
    Kernel& kernel = module->kernels.emplace_back();
    kernel.function = function;
    kernel.context = module->context;
  }
  return result;
}

CUresult describe_kernel(const DriverTable& driver, Kernel* kernel,
                         std::vector<int32_t>* attributes) {
  const char* name = nullptr;
  if (CUresult result = driver.cuFuncGetName(&name, kernel->function); result != CUDA_SUCCESS) {
    return result;
  }
  kernel->name = name;
  size_t offset = 0, bytes = 0;
  for (size_t i = 0;
       driver.cuFuncGetParamInfo(kernel->function, i, &offset, &bytes) == CUDA_SUCCESS; ++i) {
    kernel->params.push_back({offset, bytes});
    kernel->param_bytes = std::max<uint64_t>(kernel->param_bytes, offset + bytes);
  }
  for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; ++i) {
    int value = 0;
    if (driver.cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(i), kernel->function) !=
        CUDA_SUCCESS) {
      value = 0;  // not known to this driver
    }
    attributes->push_back(value);
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::server
