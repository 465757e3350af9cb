package loop

import "sync"

// Kept holds what the sessions of a process have in common and each would take a while to
// make, at most Most values by what they depend on. A value that is kept is only read.
type Kept[K comparable, V any] struct {
	Most int

	mu     sync.Mutex
	values map[K]V
}

// Of is the value of a key, made unless it is kept. An error is not kept.
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
