// Plans under a context that is not the primary one. Memory belongs to a context, so each has its own
// tensors.
#include <dlfcn.h>

#include "cases_of_options.h"
#include "catch.h"
#include "gpu_call.h"

using namespace smla_test;

namespace {

// A second context of the device, current on this thread when it is made. smla makes none itself.
class SecondContext {
 public:
  explicit SecondContext(cuda::Device device) {
    void* library = dlopen(driver().library.c_str(), RTLD_NOW);
    const auto create = reinterpret_cast<cuda::Result (*)(cuda::Context*, unsigned, cuda::Device)>(
        dlsym(library, "cuCtxCreate_v2"));
    destroy_ = reinterpret_cast<cuda::Result (*)(cuda::Context)>(dlsym(library, "cuCtxDestroy_v2"));
    REQUIRE(create != nullptr);
    REQUIRE(destroy_ != nullptr);
    check(create(&handle_, 0, device), "cuCtxCreate");
  }
  ~SecondContext() { destroy_(handle_); }
  SecondContext(const SecondContext&) = delete;
  SecondContext& operator=(const SecondContext&) = delete;

  cuda::Context handle() const { return handle_; }

 private:
  cuda::Result (*destroy_)(cuda::Context) = nullptr;
  cuda::Context handle_ = nullptr;
};

}  // namespace

TEST_CASE("one plan serves several contexts of its device, one after another", "[gpu]") {
  const Gpu& gpu = require_gpu();
  for (const Setting& setting : settings(gpu)) {
    INFO(describe(setting));
    const Case c = with_setting(layout_case(setting.heads_per_group), setting);
    expect_reference(run_on_gpu, c);
    for (int i = 0; i < 3; ++i) {  // destroyed and made again, perhaps at the same address
      const SecondContext second(gpu.properties.handle);
      expect_reference(run_on_gpu, c);
      expect_reference(run_on_gpu, c);  // functions that the call before has looked up
    }
    expect_reference(run_on_gpu, c);
  }
}

TEST_CASE("a call on a stream of another context than the current one runs in the stream's", "[gpu]") {
  const Gpu& gpu = require_gpu();
  for (const Setting& setting : settings(gpu)) {
    INFO(describe(setting));
    const Case c = with_setting(layout_case(setting.heads_per_group), setting);
    const SecondContext second(gpu.properties.handle);
    const Stream stream;
    GpuCase g = allocate(c);
    upload_inputs(g, c.tensors);
    check(driver().context_synchronize(), "cuCtxSynchronize");
    g.call.stream = stream.handle();
    cuda::Context popped = nullptr;
    check(driver().context_pop_current(&popped), "cuCtxPopCurrent");  // the primary one is current again
    REQUIRE(popped == second.handle());
    run(*g.plan, g.call);
    synchronize(stream.handle());
    check(driver().context_push_current(second.handle()), "cuCtxPushCurrent");
    expect_reference([&](const Case&) { return download(g); }, c);
  }
}
