#include "device_call.h"

#include <vector>

#include "forward.h"
#include "reference/reference.h"

namespace smla::core {
namespace {

template <class T>
DeviceBuffer uploaded(const Box& box, const std::vector<T>& values, cuda::Stream stream) {
  DeviceBuffer buffer(static_cast<std::size_t>(box.bytes()));
  if (buffer.bytes() == 0) return buffer;
  if (box.fills_buffer()) {
    copy_to_device(buffer.data(), values.data(), buffer.bytes(), stream);
  } else {
    copy_to_device(buffer.data(), placed(box, values).data(), buffer.bytes(), stream);
  }
  return buffer;
}

DeviceBuffer poisoned(std::int64_t bytes, cuda::Stream stream) {
  DeviceBuffer buffer(static_cast<std::size_t>(bytes));
  if (buffer.bytes() > 0) fill(buffer.data(), 0xff, buffer.bytes(), stream);
  return buffer;
}

Tensor view(const DeviceBuffer& buffer, const Box& box) {
  if (buffer.bytes() == 0) return {nullptr, box.strides()};
  return {static_cast<char*>(buffer.data()) + box.placement.before * box.element_bytes, box.strides()};
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

DeviceCall make_device_call(const Plan& plan, HostTensors& tensors, OrderRequest order,
                            const Layout& layout) {
  const Problem& p = plan.problem;
  DeviceCall d;
  d.boxes = boxes_of(p, tensors, layout);
  d.own_forward = tensors.lse.empty();
  const Boxes& x = d.boxes;
  const cuda::Stream stream = d.stream.handle();
  d.q = uploaded(x.q, tensors.q, stream);
  d.kv = uploaded(x.kv, tensors.kv, stream);
  d.d_o = uploaded(x.d_o, tensors.d_o, stream);
  d.indices = uploaded(x.indices, tensors.indices, stream);
  d.topk_length = uploaded(x.topk_length, tensors.topk_length, stream);
  d.attn_sink = uploaded(x.attn_sink, tensors.attn_sink, stream);
  if (d.own_forward) {
    add_device_forward(plan, tensors, d);
  } else {
    d.o = uploaded(x.o, tensors.o, stream);
    d.lse = uploaded(x.lse, tensors.lse, stream);
  }
  d.delta = uploaded(x.delta, tensors.delta, stream);
  d.d_q = poisoned(x.d_q.bytes(), stream);
  d.d_kv = poisoned(x.d_kv.bytes(), stream);
  d.d_sink = poisoned(x.d_sink.bytes(), stream);

  Call& call = d.call;
  call.lengths = {tensors.batch, tensors.queries, tensors.keys, tensors.topk};
  call.order = order;
  call.q = view(d.q, x.q);
  call.kv = view(d.kv, x.kv);
  call.o = view(d.o, x.o);
  call.d_o = view(d.d_o, x.d_o);
  call.indices = view(d.indices, x.indices);
  call.topk_length = view(d.topk_length, x.topk_length);
  if (!tensors.length_per_group) call.topk_length.strides[2] = 0;
  call.lse = view(d.lse, x.lse);
  call.delta = view(d.delta, x.delta);
  call.attn_sink = d.attn_sink.data();
  call.d_q = view(d.d_q, x.d_q);
  call.d_kv = view(d.d_kv, x.d_kv);
  call.d_sink = d.d_sink.data();
  call.scale = tensors.scale;
  call.query_offset = tensors.query_offset;
  call.stream = stream;
  d.workspace = poisoned(workspace_size(plan, call.lengths, order), stream);
  call.workspace = d.workspace.data();
  call.workspace_bytes = d.workspace.bytes();
  return d;
}

}  // namespace smla::core
