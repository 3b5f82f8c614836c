// Command generate makes the embedded list of common passwords: it fetches the frequency lists that the package zxcvbn
// publishes on npm and writes those words of them that are long enough to be a password here, and the lists' licence.
// "make passwords" runs it; nothing runs it at build time. The same package gives the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/outlayhq/outlay/schema/account"
)

// To take a newer list, change the version and the checksum (npm prints it as "integrity") and run "make passwords".
const (
	packageName    = "zxcvbn"
	packageVersion = "4.4.2"
	packageSHA512  = "Bq0B+ixT/DMyG8kgX2xWcI5jUvCwqrMxSFam7m0lAf78nf04hv6lNCsyLYdyYTrCVMqNDY/206K7eExYCeSyUQ=="
)

// The package keeps a word in one list only, the one in which it ranks highest. So each of the topRank most common
// passwords is in the list of passwords or among the first topRank words of another list.
const topRank = 10_000

func main() {
	dir := flag.String("dir", "schema/account", "directory where common_passwords.txt is written")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "generate passwords:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	script, licence, err := fetch()
	if err != nil {
		return err
	}
	words, err := commonWords(script)
	if err != nil {
		return err
	}
	text := strings.Join(words, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "common_passwords.txt"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE.zxcvbn"), licence, 0o644); err != nil {
		return fmt.Errorf("write the licence: %w", err)
	}
	return nil
}

// list matches one frequency list, most frequent word first.
var list = regexp.MustCompile(`(\w+): "([^"]*)"\.split\(","\)`)

// commonWords returns the words to refuse, sorted.
func commonWords(script []byte) ([]string, error) {
	var words []string
	found := false
	for _, match := range list.FindAllSubmatch(script, -1) {
		ranked := strings.Split(string(match[2]), ",")
		if string(match[1]) == "passwords" {
			found = len(ranked) >= topRank
		} else {
			ranked = ranked[:min(topRank, len(ranked))]
		}
		for _, word := range ranked {
			if word = account.FoldPassword(word); utf8.RuneCountInString(word) >= account.MinPasswordLength {
				words = append(words, word)
			}
		}
	}
	if !found {
		return nil, errors.New("the package has no list of passwords, or a short one")
	}
	slices.Sort(words)
	return slices.Compact(words), nil
}

// fetch gets the package with the npm client, whatever registry that is set up for, and checks it.
func fetch() (script, licence []byte, err error) {
	dir, err := os.MkdirTemp("", "outlay-passwords-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	spec := packageName + "@" + packageVersion
	cmd := exec.Command("npm", "pack", "--silent", "--pack-destination", dir, spec)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, nil, fmt.Errorf("npm pack %s: %w", spec, err)
	}
	archive, err := os.ReadFile(filepath.Join(dir, packageName+"-"+packageVersion+".tgz"))
	if err != nil {
		return nil, nil, fmt.Errorf("npm pack %s: %w", spec, err)
	}
	if sum := sha512.Sum512(archive); base64.StdEncoding.EncodeToString(sum[:]) != packageSHA512 {
		return nil, nil, fmt.Errorf("checksum of %s is not the one recorded", spec)
	}
	return unpack(archive)
}

func unpack(archive []byte) (script, licence []byte, err error) {
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, nil, fmt.Errorf("unpack: %w", err)
	}
	for r := tar.NewReader(zipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("unpack: %w", err)
		}
		into := map[string]*[]byte{"package/lib/frequency_lists.js": &script, "package/LICENSE.txt": &licence}[header.Name]
		if into == nil {
			continue
		}
		if *into, err = io.ReadAll(r); err != nil {
			return nil, nil, fmt.Errorf("unpack: %w", err)
		}
	}
	if len(script) == 0 || len(licence) == 0 {
		return nil, nil, errors.New("no lists or no licence in the package")
	}
	return script, licence, nil
}
