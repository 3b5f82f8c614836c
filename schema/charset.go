package schema

import "strings"

// OtherCharset reports whether a Content-Type names a character encoding that is not UTF-8. JSON has no other.
func OtherCharset(contentType string) bool {
	_, parameters, _ := strings.Cut(contentType, ";")
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "charset") {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"`)
		if !strings.EqualFold(value, "utf-8") && !strings.EqualFold(value, "utf8") {
			return true
		}
	}
	return false
}
