#include "espalier/pjrt/buffer.h"

#include <fmt/format.h>

#include "espalier/pjrt/call.h"
#include "espalier/pjrt/client.h"

namespace espalier {

void Buffer::destroy() {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_Destroy_Args, args);
  args.buffer = std::exchange(raw_, nullptr);
  (void)ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_Destroy, args);
  client_.reset();
}

Result<Dims> Buffer::dims() const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_Dimensions_Args, args);
  args.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_Dimensions, args));
  return Dims(args.dims, args.dims + args.num_dims);
}

Result<DType> Buffer::dtype() const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_ElementType_Args, args);
  args.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_ElementType, args));
  return from_pjrt(args.type);
}

Result<size_t> Buffer::on_device_bytes() const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_OnDeviceSizeInBytes_Args, args);
  args.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_OnDeviceSizeInBytes, args));
  return args.on_device_size_in_bytes;
}

Result<const Device*> Buffer::device() const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_Device_Args, args);
  args.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_Device, args));
  return client_->device_of(args.device);
}

Result<const Memory*> Buffer::memory() const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_Memory_Args, args);
  args.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_Memory, args));
  return client_->memory_of(args.memory);
}

Result<uintptr_t> Buffer::unsafe_pointer() const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_UnsafePointer_Args, args);
  args.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_UnsafePointer, args));
  return args.buffer_pointer;
}

Result<Event> Buffer::ready_event() const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_ReadyEvent, args));
  return Event(&client_->plugin(), args.event);
}

Result<Event> Buffer::to_host(void* destination, size_t size) const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_Dimensions_Args, dims);
  dims.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_Dimensions, dims));
  // Without a layout the plugin copies in the device's own, which the compiler may have transposed.
  std::vector<int64_t> minor_to_major(dims.num_dims);
  for (size_t i = 0; i < minor_to_major.size(); ++i) {
    minor_to_major[i] = static_cast<int64_t>(minor_to_major.size() - 1 - i);
  }
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_MemoryLayout, layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = raw_;
  args.host_layout = &layout;
  args.dst = destination;
  args.dst_size = size;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_ToHostBuffer, args));
  return Event(&client_->plugin(), args.event);
}

Result<HostArray> Buffer::to_host() const {
  ESPALIER_ASSIGN(auto type, dtype());
  ESPALIER_ASSIGN(auto sizes, dims());
  HostArray out(type, std::move(sizes));
  // An empty array has no bytes to copy, and a null destination means another question in C.
  if (out.bytes() == 0) {
    ESPALIER_ASSIGN(auto ready, ready_event());
    ESPALIER_TRY(ready.await());
    return out;
  }
  ESPALIER_ASSIGN(auto done, to_host(out.data(), out.bytes()));
  ESPALIER_TRY(done.await());
  return out;
}

Result<Buffer> Buffer::copy_to_device(const Device& device) const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_CopyToDevice_Args, args);
  args.buffer = raw_;
  args.dst_device = device.raw();
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_CopyToDevice, args));
  return Buffer(client_, args.dst_buffer);
}

Result<Buffer> Buffer::copy_to_memory(const Memory& memory) const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_CopyToMemory_Args, args);
  args.buffer = raw_;
  args.dst_memory = memory.raw();
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_CopyToMemory, args));
  return Buffer(client_, args.dst_buffer);
}

Status Buffer::remove() {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_Delete_Args, args);
  args.buffer = raw_;
  return ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_Delete, args);
}

Result<bool> Buffer::is_deleted() const {
  ESPALIER_PJRT_STRUCT(PJRT_Buffer_IsDeleted_Args, args);
  args.buffer = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(client_->plugin(), PJRT_Buffer_IsDeleted, args));
  return args.is_deleted;
}

}  // namespace espalier
