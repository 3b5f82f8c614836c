package limit

import "sync"

// queue holds the windows that the database has to be asked about. It takes none
// unless somebody serves it, so that nobody waits in vain.
type queue struct {
	wake chan struct{}

	mu      sync.Mutex
	served  bool
	waiting []*window
}

func (q *queue) add(w *window) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.served {
		return false
	}
	q.waiting = append(q.waiting, w)
	q.signal()
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns up to n windows.
func (q *queue) take(n int) []*window {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.waiting))
	taken := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	if len(q.waiting) > 0 {
		q.signal()
	}
	return taken
}

// open makes the queue take windows.
func (q *queue) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served = true
}

// close makes the queue take no more, and returns what it holds.
func (q *queue) close() []*window {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.waiting
	q.served, q.waiting = false, nil
	return left
}
