package loop

import "sync"

// Kept is a cache, shared by the sessions of a process, of up to Most read-only values that are slow to make. The key
// holds the inputs that determine a value.
type Kept[K comparable, V any] struct {
	Most int

	mu     sync.Mutex
	values map[K]V
}

// Of returns the value of a key, creating it if it is not cached. Errors are not cached.
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
