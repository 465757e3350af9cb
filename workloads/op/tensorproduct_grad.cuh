// What all kernels of dx, the gradient of a tensor product's features, have in common: how a node's edges are cut into
// segments. Segment j of node a is number colptr[a] / SEGMENT + a + j.
#pragma once
#include "op.cuh"

#define SEGMENT 256

// back_segment is the range of perm of segment s: of the last node whose first one is not behind s.
struct back_range {
  int from, to;
};
GP_FN back_range back_segment(const int *colptr, int nodes, int s) {
  int lo = 0, hi = nodes;
  while (hi - lo > 1) {
    int mid = (lo + hi) / 2;
    if (colptr[mid] / SEGMENT + mid <= s)
      lo = mid;
    else
      hi = mid;
  }
  int start = colptr[lo], end = colptr[lo + 1];
  long long at = start + ((long long)s - start / SEGMENT - lo) * SEGMENT;
  int from = (int)gp_min(at, (long long)end);
  return {from, (int)gp_min((long long)from + SEGMENT, (long long)end)};
}
