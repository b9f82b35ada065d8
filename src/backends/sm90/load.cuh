#pragma once

// The copying warp: decides items, sends their queries once and their keys and values step by
// step through the rings, and sends again what a warpgroup could not finish (softmax.cuh).

#include <cstdint>

#include "backends/sm90/ptx.cuh"
#include "backends/sm90/schedule.cuh"
#include "backends/sm90/shape.cuh"
#include "backends/sm90/tensor_maps.cuh"
#include "device/attention_args.hpp"

namespace ragged::sm90 {

template <class Shape>
class Loader {
 public:
  __device__ __forceinline__ Loader(const TensorMaps& maps, const device::AttentionArgs& args,
                                    const TileSplit& split, SharedAddress shared)
      : maps_(maps), args_(args), split_(split), shared_(shared) {}

  // All that falls to this block of `work`, which lies in shared memory. Precondition: there is
  // something. All lanes of the copying warp walk in step; one of them sends.
  __device__ __forceinline__ void run(const Work& work) {
    const Turns turns(work.items);
    int turn = 0;
    std::uint32_t again = 0;  // how many items ago the one was that has to be sent again; 0: none
    for (;;) {
      const bool more = turns.has<Shape::consumers>(turn);
      if (again == 0 && !more) {
        named_sync(kEndBarrier, Shape::consumers * 128 + 32);
        if ((note(0) | note(1) | note(2) | note(3)) == 0) return;
        named_sync(kEndBarrier, Shape::consumers * 128 + 32);
        wait_for_query_slot();
        // Every warpgroup waits: all are judged. The oldest goes first, while its note is there.
        for (std::uint32_t age = 1; age <= 3 && age <= items_.steps; ++age) {
          if (note(items_.steps - age) != 0) again = age;
        }
      }
      // While the queries before still hold their place: reading a unit takes a microsecond.
      build(work, turns, turn, again);
      if (again == 0) {
        wait_for_query_slot();
        // The slot's last item is past its products, so the one before it is judged.
        constexpr std::uint32_t kJudged = Shape::query_slots + 1;
        if (items_.steps >= kJudged && note(items_.steps - kJudged) != 0) {
          again = kJudged;
          continue;
        }
        ++turn;
      }
      send(item_of(items_.steps));
      again = 0;
    }
  }

 private:
  // Makes the next item: that of the turn, or what an item could not finish that was sent `again`
  // items ago, whose note is taken. Nobody reads the item's place any more: what was there is four
  // back.
  __device__ __forceinline__ void build(const Work& work, const Turns& turns, int turn,
                                        std::uint32_t again) {
    Item& item = item_of(items_.steps);
    const Item& first = item_of(items_.steps - again);
    __syncwarp();
    item.first_try = static_cast<std::int32_t>((items_.steps - again) % 4);
    item.team = 0;
    if (again == 0) {
      item.index = turns.item<Shape::consumers>(turn);
      item.part = turns.part<Shape::consumers>(turn);
      item.redo = 0;
      item.follows = 0;
      item.guarded = 0;
      item.last = turns.has<Shape::consumers>(turn + 1) ? 0 : 1;
    } else {
      const std::uint32_t redo = note(items_.steps - again);
      __syncwarp();  // lanes write what others have read
      item.index = first.index;
      item.part = first.part;
      item.redo = static_cast<std::int32_t>(redo & kFailedWarps);
      item.follows = (redo & kFailedValues) == 0 ? 1 : 0;
      item.guarded = (redo & kFailedValues) != 0 || first.guarded != 0 ? 1 : 0;
      item.last = turns.has<Shape::consumers>(turn) ? 0 : 1;
      note(items_.steps - again) = 0;
    }
    const int unit = item.index / args_.head_groups;
    set_unit<Shape::keys>(item, args_, fetch(args_.units + work.place(unit)),
                          item.index - unit * args_.head_groups);
    if constexpr (Shape::teams) {
      if (work.is_team(unit)) make_team(item);
    }
    __syncwarp();
    const int lane = threadIdx.x % 32;
    if (lane < Shape::consumers) set_group<Shape::keys>(item, args_, split_, lane);
    __syncwarp();
  }
  [[nodiscard]] __device__ __forceinline__ Item& item_of(std::uint32_t sequence) const {
    return shared_pointer<Item>(shared_ + Shape::items_at)[sequence % 4];
  }
  // What the warpgroups could not finish of that item.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t& note(std::uint32_t sequence) const {
    return shared_pointer<std::uint32_t>(shared_ + Shape::failed_at)[sequence % 4];
  }
  // The unit by way of shared memory: its numbers would not fit the warp's registers at once.
  [[nodiscard]] __device__ __forceinline__ const device::Unit& fetch(
      const device::Unit* unit) const {
    constexpr unsigned kPieces = sizeof(device::Unit) / sizeof(uint4);
    auto* const to = shared_pointer<uint4>(shared_ + Shape::unit_at);
    const unsigned lane = threadIdx.x % 32;
    if (lane < kPieces) to[lane] = reinterpret_cast<const uint4*>(unit)[lane];
    __syncwarp();
    return *reinterpret_cast<const device::Unit*>(to);
  }
  // A team is never cut into parts: the first takes all, the others nothing.
  static __device__ __forceinline__ void make_team(Item& item) {
    if (item.part % 16 != 0) {
      item.rows = 0;
      item.tiles = 0;
    } else {
      item.team = 1;
    }
    item.part = 16 * Shape::consumers;
  }
  __device__ __forceinline__ void wait_for_query_slot() {
    barrier_wait(shared_ + Barriers<Shape>::queries_empty + 8 * items_.slot(), items_.parity() ^ 1);
  }

  __device__ __forceinline__ void send(const Item& item) {
    send_queries(item);
    const KeyWalk<Shape::keys> walk(item);
    const int fresh_tiles = item.tiles - walk.seam_tile;
    send_steps(&maps_.prefix_k, &maps_.prefix_v, item.prefix_begin + walk.begin,
               min(walk.seam_tile, item.tiles), item.kv_head);
    send_steps(&maps_.k, &maps_.v, item.kv_begin + walk.seam - item.prefix_len, fresh_tiles,
               item.kv_head);
    ++items_.steps;
  }

  __device__ __forceinline__ void send_steps(const PanelMaps* k, const PanelMaps* v, int row,
                                             int tiles, int kv_head) {
#pragma unroll 1
    for (; tiles > 0; --tiles) {
      send_step(k, Shape::keys_at, Barriers<Shape>::keys_full, Barriers<Shape>::keys_empty, row,
                kv_head);
      send_step(v, Shape::values_at, Barriers<Shape>::values_full, Barriers<Shape>::values_empty,
                row, kv_head);
      ++steps_.steps;
      row += Shape::keys;
    }
  }

  __device__ __forceinline__ void send_queries(const Item& item) {
    const SharedAddress full = shared_ + Barriers<Shape>::queries_full + 8 * items_.slot();
    if (threadIdx.x % 32 != 0) return;
    const int begin = item.part % 16;
    int end = begin;
    if (item.tiles > 0) {
      while (end < item.part / 16 && end * split_.tokens < item.rows) ++end;
    }
    barrier_expect(full, (end - begin) * Shape::row_bytes * split_.heads * split_.tokens);
#pragma unroll 1
    for (int tile = begin; tile < end; ++tile) {
      const SharedAddress to = shared_ + Shape::queries_at +
                               (items_.slot() * Shape::consumers + tile) * Shape::query_bytes;
#pragma unroll
      for (int panel = 0; panel < Shape::panels; ++panel) {
        copy_box(to + panel * Shape::query_panel_bytes, &maps_.q.main, full, panel * Shape::panel,
                 item.head, item.q_row + tile * split_.tokens);
      }
      if constexpr (Shape::tail > 0) {
        copy_box(to + Shape::query_tail_at, &maps_.q.tail, full, Shape::main, item.head,
                 item.q_row + tile * split_.tokens);
      }
    }
  }

  __device__ __forceinline__ void send_step(const PanelMaps* map, int at, int full_at, int empty_at,
                                            int row, int kv_head) {
    const SharedAddress full = shared_ + full_at + 8 * steps_.slot();
    barrier_wait(shared_ + empty_at + 8 * steps_.slot(), steps_.parity() ^ 1);
    if (threadIdx.x % 32 != 0) return;
    barrier_expect(full, Shape::keys * Shape::row_bytes);
    const SharedAddress to = shared_ + at + steps_.slot() * Shape::key_bytes;
    copy_box(to, &map->main, full, 0, row, 0, kv_head);
    if constexpr (Shape::tail > 0) {
      copy_box(to + Shape::key_tail_at, &map->tail, full, Shape::main, row, kv_head);
    }
  }

  const TensorMaps& maps_;
  const device::AttentionArgs& args_;
  const TileSplit& split_;
  const SharedAddress shared_;
  RingPlace<Shape::query_slots> items_;  // sent so far
  RingPlace<Shape::stages> steps_;
};

}  // namespace ragged::sm90
