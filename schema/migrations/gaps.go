package migrations

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// unusedSuffix ends the name of a migration that no file has.
const unusedSuffix = "_unused.sql"

// gapless is the directory of migrations in which a number that no file has stands for a migration that does nothing: parts of
// the program that grow at the same time take their numbers apart from each other.
type gapless struct{ fs.FS }

// ReadDir lists the directory and what is missing in it.
func (g gapless) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(g.FS, name)
	if err != nil || name != "." {
		return entries, err
	}
	taken, last := map[int]bool{}, 0
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		if n, err := strconv.Atoi(number); err == nil {
			taken[n], last = true, max(last, n)
		}
	}
	for n := 1; n < last; n++ {
		if !taken[n] {
			entries = append(entries, unused{entries[0], fmt.Sprintf("%03d"+unusedSuffix, n)})
		}
	}
	return entries, nil
}

// ReadFile reads a file, whether it is there or not.
func (g gapless) ReadFile(name string) ([]byte, error) {
	if strings.HasSuffix(name, unusedSuffix) {
		return []byte("select 1"), nil
	}
	return fs.ReadFile(g.FS, name)
}

// unused is the entry of a file that is not there. What is not its name it has from another file.
type unused struct {
	fs.DirEntry
	name string
}

// Name returns the name of the file.
func (u unused) Name() string { return u.name }

// IsDir returns false.
func (u unused) IsDir() bool { return false }
