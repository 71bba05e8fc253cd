#include "device_call.h"

#include <vector>

#include "forward.h"
#include "reference/reference.h"

namespace smla::core {
namespace {

template <class T>
DeviceBuffer uploaded(const std::vector<T>& values, cuda::Stream stream) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  if (!values.empty()) copy_to_device(buffer.data(), values.data(), buffer.bytes(), stream);
  return buffer;
}

template <class T>
void download(std::vector<T>& values, const DeviceBuffer& buffer, cuda::Stream stream) {
  values.resize(buffer.bytes() / sizeof(T));
  if (!values.empty()) copy_to_host(values.data(), buffer.data(), buffer.bytes(), stream);
}

void add_device_forward(const Plan& plan, HostTensors& tensors, DeviceCall& d) {
  const Problem& p = plan.problem;
  const auto rows = static_cast<std::size_t>(tensors.batch * tensors.queries * p.heads);
  d.o = DeviceBuffer(rows * static_cast<std::size_t>(p.d_v) * 2);
  d.lse = DeviceBuffer(rows * sizeof(float));
  const ForwardBuffers buffers = {d.q.data(),         d.kv.data(), d.indices.data(), d.topk_length.data(),
                                  d.attn_sink.data(), d.o.data(),  d.lse.data()};
  run_forward(p, tensors, plan.device, buffers, d.stream.handle());
  download(tensors.o, d.o, d.stream.handle());
  download(tensors.lse, d.lse, d.stream.handle());
  if (p.has_delta) tensors.delta = make_delta(p, tensors);
}

}  // namespace

DeviceCall make_device_call(const Plan& plan, HostTensors& tensors, OrderRequest order) {
  const Problem& p = plan.problem;
  DeviceCall d;
  const cuda::Stream stream = d.stream.handle();
  d.q = uploaded(tensors.q, stream);
  d.kv = uploaded(tensors.kv, stream);
  d.d_o = uploaded(tensors.d_o, stream);
  d.indices = uploaded(tensors.indices, stream);
  d.topk_length = uploaded(tensors.topk_length, stream);
  d.attn_sink = uploaded(tensors.attn_sink, stream);
  add_device_forward(plan, tensors, d);
  d.delta = uploaded(tensors.delta, stream);
  d.d_q = DeviceBuffer(d.q.bytes());
  d.d_kv = DeviceBuffer(d.kv.bytes() * (p.d_kv_type == DkvType::fp32 ? 2 : 1));
  d.d_sink = DeviceBuffer(d.attn_sink.bytes());

  Call& call = d.call;
  call.lengths = {tensors.batch, tensors.queries, tensors.keys, tensors.topk};
  call.order = order;
  set_contiguous_strides(call, p);
  if (!tensors.length_per_group) call.topk_length.strides = {tensors.queries, 1, 0};
  call.q.data = d.q.data();
  call.kv.data = d.kv.data();
  call.o.data = d.o.data();
  call.d_o.data = d.d_o.data();
  call.indices.data = d.indices.data();
  call.topk_length.data = d.topk_length.data();
  call.lse.data = d.lse.data();
  call.delta.data = d.delta.data();
  call.attn_sink = d.attn_sink.data();
  call.d_q.data = d.d_q.data();
  call.d_kv.data = d.d_kv.data();
  call.d_sink = d.d_sink.data();
  call.scale = tensors.scale;
  call.query_offset = tensors.query_offset;
  call.stream = stream;
  d.workspace = DeviceBuffer(static_cast<std::size_t>(workspace_size(plan, call.lengths, order)));
  call.workspace = d.workspace.data();
  call.workspace_bytes = d.workspace.bytes();
  return d;
}

}  // namespace smla::core
