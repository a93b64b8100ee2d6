// What cuStreamSetAttribute keeps for a stream. All of it are hints here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace vgpu {

struct StreamAttributes {
  CUaccessPolicyWindow window = {};
  CUsynchronizationPolicy synchronization = CU_SYNC_POLICY_AUTO;
  CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  CUlaunchMemSyncDomainMap domains = {0, 1};

  CUresult get(CUstreamAttrID which, int priority, CUstreamAttrValue* value) const {
    switch (which) {
      case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        value->accessPolicyWindow = window;
        return CUDA_SUCCESS;
      case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value->syncPolicy = synchronization;
        return CUDA_SUCCESS;
      case CU_STREAM_ATTRIBUTE_PRIORITY:
        value->priority = priority;
        return CUDA_SUCCESS;
      case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
        value->memSyncDomain = domain;
        return CUDA_SUCCESS;
      case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        value->memSyncDomainMap = domains;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }

  // A stream keeps the priority that it was made with: another one is NOT_SUPPORTED.
  CUresult set(CUstreamAttrID which, int priority, const CUstreamAttrValue& value) {
    switch (which) {
      case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        if (value.accessPolicyWindow.hitRatio < 0 || value.accessPolicyWindow.hitRatio > 1)
          return CUDA_ERROR_INVALID_VALUE;
        window = value.accessPolicyWindow;
        return CUDA_SUCCESS;
      case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        if (value.syncPolicy < CU_SYNC_POLICY_AUTO ||
            value.syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        synchronization = value.syncPolicy;
        return CUDA_SUCCESS;
      case CU_STREAM_ATTRIBUTE_PRIORITY:
        return value.priority == priority ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
      case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
        if (value.memSyncDomain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE) return CUDA_ERROR_INVALID_VALUE;
        domain = value.memSyncDomain;
        return CUDA_SUCCESS;
      case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        domains = value.memSyncDomainMap;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
};

}  // namespace vgpu
