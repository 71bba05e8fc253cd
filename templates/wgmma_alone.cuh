// Schedule wgmma: a CTA on its own. What two CTAs of a cluster do in its place is in wgmma_exchange.cuh.
#pragma once

// The address in this CTA of what lies there: in a cluster the rank is part of it.
PTX_FN u32 own(u32 address) { return address; }

// kv panels that are filled and freed together: three at a time, the last group may have fewer.
constexpr int kGroups = 3;
PTX_FN constexpr int first_panel(int group) { return group < kGroups ? group * 3 : kQkPanels; }

// Where the gather starts its list (wgmma_gather.cuh): one thread says it, all wait.
PTX_FN bool chooses_start() { return true; }
PTX_FN void tell_start(u32 tile, u32 counter, u32 step) {
  st_shared_u32(Shared::sweep_tile, tile);
  st_shared_u32(Shared::sweep_counter, counter);
  st_shared_u32(Shared::sweep_step, step);
}
PTX_FN void wait_for_start() { bar_sync(GATHER_ONLY, 128); }
