package docs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// object is a mapping in the order of the document.
type object = yaml.MapSlice

// field returns the value of a name, or nil.
func field(o any, name string) any {
	m, _ := o.(object)
	for _, item := range m {
		if item.Key == name {
			return item.Value
		}
	}
	return nil
}

// text returns a text field, or nothing.
func text(o any, name string) string {
	s, _ := field(o, name).(string)
	return s
}

// items returns the items of a list, or none.
func items(o any, name string) []any {
	list, _ := field(o, name).([]any)
	return list
}

// document is an OpenAPI document.
type document struct{ root object }

// resolve follows a $ref. What stands beside it comes first, so that a description
// beside a $ref wins.
func (d *document) resolve(v any) any {
	ref := text(v, "$ref")
	if ref == "" {
		return v
	}
	target := any(d.root)
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		target = field(target, name)
	}
	// field takes the first of two fields of one name.
	resolved, _ := d.resolve(target).(object)
	beside, _ := v.(object)
	return append(append(object{}, beside...), resolved...)
}

// property is one field of a body, indented by how deep it lies.
type property struct {
	Indent                  int
	Name, Type, Description string
	Required                bool
}

// maxDepth bounds how deep bodies are shown.
const maxDepth = 4

// properties lists the fields of a schema, those of its parts included.
func (d *document) properties(schema any, indent int) (list []property) {
	schema = d.resolve(schema)
	// Parts and alternatives are shown as one list: a reader looks for a field and not for a structure.
	for _, part := range items(schema, "allOf") {
		list = append(list, d.properties(part, indent)...)
	}
	for _, either := range items(schema, "oneOf") {
		list = append(list, d.properties(either, indent)...)
	}
	required := map[any]bool{}
	for _, name := range items(schema, "required") {
		required[name] = true
	}
	fields, _ := field(schema, "properties").(object)
	for _, item := range fields {
		inner := d.resolve(item.Value)
		list = append(list, property{
			Indent: indent, Name: fmt.Sprint(item.Key), Type: d.typeOf(inner), Required: required[item.Key],
			Description: text(inner, "description"),
		})
		// A schema may hold itself, as steps of steps would.
		if indent < maxDepth {
			list = append(list, d.properties(inner, indent+1)...)
		}
	}
	if of := field(schema, "items"); of != nil && indent < maxDepth {
		list = append(list, d.properties(of, indent)...)
	}
	return list
}

// typeOf says in a few words what a value may be.
func (d *document) typeOf(schema any) string {
	schema = d.resolve(schema)
	if value := field(schema, "const"); value != nil {
		return fmt.Sprintf("always %v", value)
	}
	if values := items(schema, "enum"); values != nil {
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(values)), " | "), "[]")
	}
	var name string
	switch kind := field(schema, "type").(type) {
	case string:
		name = kind
	case []any:
		var names []string
		for _, k := range kind {
			names = append(names, fmt.Sprint(k))
		}
		name = strings.Join(names, " | ")
	default:
		if field(schema, "allOf") != nil {
			name = "object"
		}
		var names []string
		for _, either := range items(schema, "oneOf") {
			names = append(names, d.typeOf(either))
		}
		if names != nil {
			name = strings.Join(slices.Compact(names), " | ")
		}
	}
	if of := field(schema, "items"); of != nil {
		name = strings.Replace(name, "array", "array of "+d.typeOf(of), 1)
	}
	return name + bounds(schema)
}

const maxInteger = "9007199254740991"

// bounds writes the limits of a value.
func bounds(schema any) string {
	var parts []string
	// The largest integer of a double bounds most counts; showing it helps nobody.
	if fmt.Sprint(field(schema, "maximum")) == maxInteger {
		schema = object{{Key: "minimum", Value: field(schema, "minimum")}, {Key: "default", Value: field(schema, "default")}}
	}
	for _, limit := range []struct{ key, words string }{
		{"minimum", "at least %v"},
		{"maximum", "at most %v"},
		{"maxLength", "at most %v characters"},
		{"maxItems", "at most %v"},
		{"default", "default %v"},
	} {
		if value := field(schema, limit.key); value != nil {
			parts = append(parts, fmt.Sprintf(limit.words, value))
		}
	}
	if parts == nil {
		return ""
	}
	return ", " + strings.Join(parts, ", ")
}
