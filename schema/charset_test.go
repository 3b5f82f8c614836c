package schema

import "testing"

func TestOtherCharset(t *testing.T) {
	t.Parallel()
	for contentType, other := range map[string]bool{
		"": false, "application/json": false, "application/json;": false, "application/json; charset=utf-8": false,
		`application/json;CHARSET="UTF-8"`: false, "application/json; charset=utf8; x=1": false, "application/json; x=charset": false,
		"application/json; charset=latin1": true, "application/json;charset=": true, "application/json; charset": true,
		"application/json; charset=utf-8; charset=utf-16": true, "application/json; x=1;charset = us-ascii": true,
	} {
		if got := OtherCharset(contentType); got != other {
			t.Errorf("OtherCharset(%q) = %v, want %v", contentType, got, other)
		}
	}
}
