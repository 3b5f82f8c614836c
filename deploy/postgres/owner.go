package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user that the server's files belong to and its processes run as.
type owner struct {
	// uid and gid are those of the operating system.
	uid, gid int
	switched bool // The owner is not who we are: we are root, and the processes have to become the owner.
}

// ownerOf decides who runs the server: whoever we are, but for root, which PostgreSQL refuses. data is the directory of the
// server's files, and whoever has them already keeps them.
func ownerOf(data string) (owner, error) {
	uid, gid, err := idsOf(data)
	switch {
	case errors.Is(err, fs.ErrNotExist) && os.Geteuid() == 0:
		return unprivileged()
	case errors.Is(err, fs.ErrNotExist):
		return owner{uid: os.Geteuid(), gid: os.Getegid()}, nil
	case err != nil:
		return owner{}, err
	case uid == 0:
		return owner{}, fmt.Errorf("%s belongs to root, and a server does not run as root: chown -R it to the user that made it", data)
	case os.Geteuid() == 0:
		return owner{uid: uid, gid: gid, switched: true}, nil
	case uid != os.Geteuid():
		return owner{}, fmt.Errorf("%s belongs to user %d and we run as user %d: start as that user or chown -R the directory", data, uid, os.Geteuid())
	}
	return owner{uid: uid, gid: gid}, nil
}

// unprivileged is the user that stands in for root.
func unprivileged() (owner, error) {
	// Packages of PostgreSQL make the first; every system has the second.
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr == nil && gidErr == nil {
			return owner{uid: uid, gid: gid, switched: true}, nil
		}
	}
	return owner{}, errors.New("a server does not run as root, and there is neither a user postgres nor a user nobody to run it as: add one")
}

// idsOf returns who a file belongs to.
func idsOf(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid), nil
}

// give makes the owner the owner of a file that we made.
func (o owner) give(path string) error {
	if !o.switched {
		return nil
	}
	return os.Chown(path, o.uid, o.gid)
}

// attr returns the user and group that a process of the server runs as.
func (o owner) attr(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{}
	if !o.switched {
		return attr, nil
	}
	attr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	if closed := o.closed(dir); closed != "" {
		if err := passThrough(attr); err != nil {
			return nil, fmt.Errorf("user %d, whom the server runs as, cannot enter %s (%w): chmod o+x it, or choose another directory", o.uid, closed, err)
		}
	}
	return attr, nil
}

// closed returns the first directory on the way to dir that the owner may not enter, or nothing.
func (o owner) closed(dir string) string {
	found := ""
	for d := dir; ; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err != nil || !o.enters(info) {
			found = d
		}
		if d == filepath.Dir(d) {
			return found
		}
	}
}

// enters reads the mode as the kernel does for a process with no groups but its own.
func (o owner) enters(dir fs.FileInfo) bool {
	st := dir.Sys().(*syscall.Stat_t)
	switch {
	case int(st.Uid) == o.uid:
		return dir.Mode()&0o100 != 0
	case int(st.Gid) == o.gid:
		return dir.Mode()&0o010 != 0
	}
	return dir.Mode()&0o001 != 0
}
