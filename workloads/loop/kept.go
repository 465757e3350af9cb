package loop

import "sync"

// Kept caches values that the sessions of a process share and that take time to make, at most Most values by their
// inputs. Cached values are only read.
type Kept[K comparable, V any] struct {
	Most int

	mu     sync.Mutex
	values map[K]V
}

// Of returns the value of a key, and makes it unless it is cached. An error is not cached.
func (k *Kept[K, V]) Of(key K, create func() (V, error)) (V, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, known := k.values[key]; known {
		return v, nil
	}
	v, err := create()
	if err != nil {
		return v, err
	}
	if k.values == nil || len(k.values) >= k.Most {
		k.values = map[K]V{}
	}
	k.values[key] = v
	return v, nil
}
