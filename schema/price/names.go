package price

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	// versionSuffix is how Bedrock ends a model's name: "-v2:0".
	versionSuffix = regexp.MustCompile(`(?:-v\d+)?:\d+$`)
	// daySuffix is a snapshot's date: "-20241022", "-2024-10-22", "@20241022".
	daySuffix = regexp.MustCompile(`[-@](20\d{2})-?(\d{2})-?(\d{2})$`)
	// monthSuffix is Cohere's form: "-08-2024".
	monthSuffix = regexp.MustCompile(`-(?:0[1-9]|1[0-2])-20\d{2}$`)
)

// maxSuffix is more than a date or a version takes.
const maxSuffix = 16

// maxHeads is how many providers may stand in front of a name ("openrouter/openai/gpt-4o"): each costs a search.
const maxHeads = 3

// regions are the prefixes of names that say where a model runs.
var regions = []string{"global", "us", "us-gov", "eu", "apac", "ap", "jp", "au", "in", "ca", "sa", "me", "af"}

// normalise is the form in which names are compared: no space around, and ASCII letters in lower case. Other
// letters stay as they are, so that a look-alike ("K" for Kelvin) never becomes a name of the catalogue.
func normalise(name string) string { return lower(strings.TrimSpace(name)) }

// lower folds ASCII letters only. It allocates only where there is one to fold.
func lower(s string) string {
	i := strings.IndexFunc(s, func(r rune) bool { return 'A' <= r && r <= 'Z' })
	if i < 0 {
		return s
	}
	b := []byte(s)
	for ; i < len(b); i++ {
		if 'A' <= b[i] && b[i] <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

// isASCII reports whether every byte is visible ASCII or a space, as in every published name.
func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// readings lists what a model name may stand for, the name itself first: without the path it was given with,
// the provider, the region or the vendor in front of it, and last without its version and date.
func (b *Book) readings(name string) []string {
	list := []string{name}
	add := func(next string) {
		if next != "" && next != name {
			name = next
			list = append(list, next)
		}
	}
	if i := strings.LastIndex(name, "models/"); i >= 0 {
		add(name[i+len("models/"):])
	}
	for range maxHeads {
		if head := b.head(name, "/:"); head != "" {
			add(name[len(head)+1:])
		}
	}
	for _, region := range regions {
		if rest, ok := strings.CutPrefix(name, region+"."); ok {
			add(rest)
			break
		}
	}
	if head := b.head(name, "."); head != "" {
		add(name[len(head)+1:])
	}
	add(cutSuffix(name, versionSuffix))
	if dashed := dashDate(name); dashed != name {
		list = append(list, dashed)
	}
	add(cutSuffix(name, daySuffix))
	add(cutSuffix(name, monthSuffix))
	return slices.Clip(list)
}

// head returns what stands before the first of the separators when it is a provider's name.
func (b *Book) head(name, separators string) string {
	i := strings.IndexAny(name, separators)
	if i <= 0 || i == len(name)-1 || b.byAlias[name[:i]] == nil {
		return ""
	}
	return name[:i]
}

// cutSuffix takes a suffix off. It looks at the end only, where all suffixes are shorter than maxSuffix.
func cutSuffix(name string, suffix *regexp.Regexp) string {
	start := max(0, len(name)-maxSuffix)
	if at := suffix.FindStringIndex(name[start:]); at != nil {
		return name[:start+at[0]]
	}
	return name
}

// dashDate writes a date at the end of a name the way most catalogue names do.
func dashDate(name string) string {
	m := daySuffix.FindStringSubmatch(name[max(0, len(name)-maxSuffix):])
	if m == nil {
		return name
	}
	date := m[1] + "-" + m[2] + "-" + m[3]
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return name
	}
	return strings.TrimSuffix(name, m[0]) + "-" + date
}
