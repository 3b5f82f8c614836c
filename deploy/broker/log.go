package broker

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// logInterval is how often the same kind of warning is logged at most.
const logInterval = 10 * time.Second

// logger passes warnings and errors of the broker on. A broker that cannot write warns
// about every request.
type logger struct {
	log *slog.Logger

	// mu guards logged. The broker logs from several goroutines.
	mu     sync.Mutex
	logged map[string]time.Time // by format
}

// Logf logs a message of the broker.
func (l *logger) Logf(level kfake.LogLevel, format string, args ...any) {
	if level > kfake.LogLevelWarn || !l.due(format) {
		return
	}
	l.log.Warn("embedded broker", "message", fmt.Sprintf(format, args...))
}

// due reports whether a message with this format may be logged again.
func (l *logger) due(format string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.logged[format]) < logInterval {
		return false
	}
	if l.logged == nil {
		l.logged = map[string]time.Time{}
	}
	l.logged[format] = now
	return true
}
