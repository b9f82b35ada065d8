#include "gpu/cuda_memory.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/cuda_support.hpp"

namespace ragged::test {
namespace {

// Larger blocks go back to the driver at once.
constexpr std::size_t kLargestKept = std::size_t{64} << 20;
constexpr int kUnwritten = 0xff;  // NaN in every dtype

// The driver's functions, found through the runtime: linking the driver would keep a program from
// starting where there is none.
template <typename Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
  if (found == nullptr) throw std::runtime_error(std::string(name) + ": the driver lacks it");
  return reinterpret_cast<Function>(found);
}

struct Driver {
  decltype(&cuMemAddressReserve) reserve =
      driver_function<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) unreserve =
      driver_function<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemCreate) create = driver_function<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = driver_function<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemMap) map = driver_function<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = driver_function<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access =
      driver_function<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  decltype(&cuMemGetAllocationGranularity) granularity =
      driver_function<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
};

void check(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": driver error " + std::to_string(status));
}

// Mapped memory with an unmapped granule on both sides.
class Block {
 public:
  Block(const Driver& driver, int device, std::size_t bytes, std::size_t granule)
      : driver_(driver), bytes_(bytes), reserved_(bytes + 2 * granule) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    check(driver_.reserve(&base_, reserved_, 0, 0, 0), "reserving addresses");
    first_ = base_ + granule;
    CUmemGenericAllocationHandle memory = 0;
    check(driver_.create(&memory, bytes_, &properties, 0), "allocating device memory");
    const CUresult mapped = driver_.map(first_, bytes_, 0, memory, 0);
    check(driver_.release(memory), "device memory");  // lives as long as it is mapped
    check(mapped, "mapping device memory");
    const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check(driver_.set_access(first_, bytes_, &access, 1), "opening device memory");
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    static_cast<void>(driver_.unmap(first_, bytes_));
    static_cast<void>(driver_.unreserve(base_, reserved_));
  }
  [[nodiscard]] std::byte* data() const { return reinterpret_cast<std::byte*>(first_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const Driver& driver_;
  CUdeviceptr base_ = 0;
  CUdeviceptr first_ = 0;
  std::size_t bytes_;
  std::size_t reserved_;
};

class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(int index) : index_(index) {}

  [[nodiscard]] Device device() const override { return {DeviceKind::cuda, index_}; }

  Buffer allocate(std::size_t bytes, std::size_t alignment) override {
    const OnDevice current(index_);
    if (exact_) {
      void* data = nullptr;
      test::check(cudaMalloc(&data, std::max<std::size_t>(bytes, 1)), "device memory");
      return {data, bytes, [data] { static_cast<void>(cudaFree(data)); }};
    }
    std::shared_ptr<Block> block = take(bytes);
    test::check(cudaMemset(block->data(), kUnwritten, block->bytes()), "filling device memory");
    test::check(cudaDeviceSynchronize(), "filling device memory");
    std::byte* data = block->data() + ((block->bytes() - bytes) & ~(alignment - 1));
    return {data, bytes, [this, block]() mutable { keep(std::move(block)); }};
  }

  void fill(void* to, std::uint32_t bits, std::size_t element_bytes, std::size_t count) override {
    std::vector<std::byte> image(element_bytes * count);
    for (std::size_t i = 0; i < image.size(); ++i) {
      image[i] = static_cast<std::byte>(bits >> (8 * (i % element_bytes)));
    }
    upload(to, image.data(), image.size());
  }

  void upload(void* to, const void* from, std::size_t bytes) override {
    const OnDevice current(index_);
    if (bytes > 0) test::check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "an upload");
    // From pageable memory the copy may still be on its way; other streams do not wait for it.
    test::check(cudaDeviceSynchronize(), "an upload");
  }

  void download(void* to, const void* from, std::size_t bytes) override {
    const OnDevice current(index_);
    test::check(cudaDeviceSynchronize(), "work before a download");
    if (bytes > 0) test::check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "a download");
  }

 private:
  // The current device, for a scope.
  class OnDevice {
   public:
    explicit OnDevice(int index) {
      test::check(cudaGetDevice(&before_), "the current device");
      if (index != before_) test::check(cudaSetDevice(index), "the current device");
    }
    ~OnDevice() { static_cast<void>(cudaSetDevice(before_)); }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

   private:
    int before_ = 0;
  };

  std::shared_ptr<Block> take(std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!driver_) {
      test::check(cudaFree(nullptr), "a CUDA context");
      driver_ = std::make_unique<Driver>();
      CUmemAllocationProp properties = {};
      properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
      properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {index_}};
      check(driver_->granularity(&granule_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            "the granularity of device memory");
    }
    const std::size_t size = (std::max<std::size_t>(bytes, 1) + granule_ - 1) / granule_ * granule_;
    std::vector<std::shared_ptr<Block>>& kept = kept_[size];
    if (kept.empty()) return std::make_shared<Block>(*driver_, index_, size, granule_);
    std::shared_ptr<Block> block = std::move(kept.back());
    kept.pop_back();
    return block;
  }

  // As cudaFree: not before the device is done with it.
  void keep(std::shared_ptr<Block> block) {
    const OnDevice current(index_);
    static_cast<void>(cudaDeviceSynchronize());
    const std::lock_guard<std::mutex> lock(mutex_);
    if (block->bytes() <= kLargestKept) kept_[block->bytes()].push_back(std::move(block));
  }

  int index_;
  bool exact_ = std::getenv("RAGGED_TEST_CUDA_MALLOC") != nullptr;
  std::mutex mutex_;
  std::unique_ptr<Driver> driver_;
  std::size_t granule_ = 0;
  std::map<std::size_t, std::vector<std::shared_ptr<Block>>> kept_;
};

}  // namespace

Memory& cuda_memory(int index) {
  // Never destroyed: the driver may be gone before static objects are.
  static std::mutex mutex;
  static auto* const memories = new std::map<int, std::unique_ptr<CudaMemory>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<CudaMemory>& memory = (*memories)[index];
  if (!memory) memory = std::make_unique<CudaMemory>(index);
  return *memory;
}

}  // namespace ragged::test
