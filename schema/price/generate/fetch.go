package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// To take newer prices, change the version and the checksum (npm prints it as "integrity") and run "make prices".
const (
	packageName    = "@pydantic/genai-prices"
	packageVersion = "0.1.8"
	packageSHA512  = "h7CYw6qTyflG2zUndO8tXyL8Xopf+tX9JZu13h0ZFgeyYj+J2gm1edR4+R+mbQ2vPdkFjtTmmmu1cYQPM5/KTA=="
)

// The package holds its data inside a script. Its documented function waitForUpdate answers with it.
const printData = `require(process.argv[1]).waitForUpdate().then(d => process.stdout.write(JSON.stringify(d)))`

// release is what is used of the package.
type release struct{ data, licence []byte }

// fetch gets the package with the npm client, whatever registry that is set up for, checks it, and reads the data.
func fetch(ctx context.Context) (release, error) {
	dir, err := os.MkdirTemp("", "outlay-prices-")
	if err != nil {
		return release{}, err
	}
	defer os.RemoveAll(dir)
	spec := packageName + "@" + packageVersion
	if _, err := output(ctx, dir, "npm", "pack", "--silent", "--pack-destination", dir, spec); err != nil {
		return release{}, err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return release{}, fmt.Errorf("npm pack %s left %d archives", spec, len(archives))
	}
	archive, err := os.ReadFile(archives[0])
	if err != nil {
		return release{}, err
	}
	if sum := sha512.Sum512(archive); base64.StdEncoding.EncodeToString(sum[:]) != packageSHA512 {
		return release{}, fmt.Errorf("checksum of %s is not the one recorded", spec)
	}
	script, licence, err := unpack(archive)
	if err != nil {
		return release{}, fmt.Errorf("unpack %s: %w", spec, err)
	}
	module := filepath.Join(dir, "index.cjs")
	if err := os.WriteFile(module, script, 0o600); err != nil {
		return release{}, err
	}
	data, err := output(ctx, dir, "node", "-e", printData, module)
	return release{data, licence}, err
}

// unpack returns the script and the licence of a package archive.
func unpack(archive []byte) (script, licence []byte, err error) {
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, nil, err
	}
	files := map[string][]byte{}
	for r := tar.NewReader(zipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			return nil, nil, err
		}
	}
	script, licence = files["package/dist/index.cjs"], files["package/LICENSE"]
	if len(script) == 0 || len(licence) == 0 {
		return nil, nil, errors.New("no script or no licence in it")
	}
	return script, licence, nil
}

// output runs a program in dir and returns what it printed.
func output(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s %s: %w", program, args[0], err)
	}
	return out, nil
}
