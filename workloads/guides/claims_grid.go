package guides

import "maps"

func gridPair(a, b set) AB { return AB{Workload: "gridsim", Preset: "small", A: a, B: b} }

// gridChange returns a comparison of the settings a with the settings b. Both sides get the settings of common, too.
func gridChange(common, a, b set) AB {
	with := func(s set) set {
		out := maps.Clone(common)
		maps.Copy(out, s)
		return out
	}
	return gridPair(with(a), with(b))
}

// trimCadences compares intervals of emptying the cache, for blocks of fixed sizes and of varying sizes.
func trimCadences() []AB {
	var out []AB
	for _, roi := range []string{"off", "on"} {
		for _, every := range []string{"every:100", "every:50", "every:1"} {
			out = append(out, gridChange(set{"impl": "split", "allocator": "pool", "roi": roi}, set{"pool_trim": "never"}, set{"pool_trim": every}))
		}
	}
	return append(out, gruPair(set{"pool_trim": "never"}, set{"pool_trim": "every:1"}), gruPair(set{"pool_trim": "never"}, set{"pool_trim": "every:50"}))
}

// splitLimits compares a limit of 128 MiB with no limit. In the first comparison no block reaches the limit.
func splitLimits() []AB {
	small := gridChange(set{"impl": "split", "allocator": "pool", "roi": "on"}, set{"max_split": "none"}, set{"max_split": "128"})
	large := small
	large.Preset, large.On = "large", "cuda"
	return []AB{small, large}
}

// tapeRecords compares what a step records for a backward pass, from everything to nothing, on growing grids.
func tapeRecords() []AB {
	var out []AB
	for _, grid := range []string{"16", "128", "512"} {
		common := set{"impl": "split", "allocator": "pool", "grid": grid}
		out = append(out, gridChange(common, set{"tape": "saved"}, set{"tape": "off"}), gridChange(common, set{"tape": "nodes"}, set{"tape": "off"}))
	}
	// Compare a step that records what training needs with a forward pass alone.
	return append(out, gruPair(set{"tape": "saved"}, set{"tape": "off"}), gruPair(set{"tape": "saved", "windows_kept": "64"}, set{"tape": "off"}))
}

func aetheriaClaims() []Claim {
	const fewer = "-50-70 % transfers"
	state := set{"grid": "352", "channels": "16", "live": "off"} // of 7.6 MiB
	often := set{"live": "every:1"}
	return []Claim{
		{ID: "ae-cache", Program: []string{"torch.cuda.empty_cache"}, Reversed: true, Guide: "Aetheria, RxVision", Claim: "empty the cache every 100, 50 or 1 steps", Figure: "recommended", Host: true, GPU: true, AB: trimCadences()},
		{ID: "ae-split", Guide: "RxVision", Claim: "max_split_size_mb 128", Figure: "recommended", Host: true, GPU: true, AB: splitLimits()},
		{ID: "ae-infer", Guide: "Aetheria", Claim: "inference mode instead of gradients off", Figure: "10-30 %", Speedup: 1.1, Host: true, GPU: true, AB: tapeRecords()},
		{ID: "ae-keep", Guide: "Aetheria", Claim: "keep tensors under 10 MB (5 MB) on the device", Figure: fewer, Run: Transfers, Host: true, GPU: true,
			AB: []AB{gridChange(state, set{"keep": "host"}, set{"keep": "below:10"}), gridChange(state, set{"keep": "host"}, set{"keep": "below:5"}), e3nnPair(set{"item_reads": "16"}, set{"item_reads": "packed"})}},
		{ID: "ae-batch", Guide: "Aetheria", Claim: "transfers in batches", Figure: "fewer transfers", Run: Transfers, Host: true, GPU: true,
			AB: []AB{gridChange(often, set{"view_copy": "each"}, set{"view_copy": "packed"})}},
		{ID: "ae-lazy", Guide: "Aetheria", Claim: "copy only when the picture is shown", Figure: fewer, Run: Transfers, Host: true, GPU: true,
			AB: []AB{gridPair(set{"view_when": "eager"}, set{"view_when": "lazy"}), gridChange(set{"live": "every:3"}, set{"view_when": "eager"}, set{"view_when": "lazy"})}},
		{ID: "ae-down", Guide: "Aetheria", Claim: "downsample before the copy", Figure: "fewer bytes", Host: true, GPU: true,
			AB: []AB{gridChange(often, set{"pool_where": "host"}, set{"pool_where": "device"})}},
		{ID: "ae-stats", Guide: "Aetheria", Claim: "reading memory statistics at any time is harmless", Figure: "no cost", Placebo: true, Host: true, GPU: true,
			AB: []AB{gridPair(set{"stats": "step"}, set{"stats": "off"}), gridPair(set{"stats": "sync"}, set{"stats": "off"})}},
		markMissing(Claim{ID: "ae-eval", Guide: "Aetheria", Claim: "evaluation mode: the law has no dropout and no batch norm to switch off", Figure: "faster"}, BeyondTool),
	}
}
