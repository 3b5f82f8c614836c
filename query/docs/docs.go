// Package docs turns the OpenAPI document into one page for people: what each
// endpoint takes and answers, with examples. It needs no script and nothing from
// elsewhere, so it is readable where there is no internet, and under the strictest
// content security policy.
package docs

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed docs.html
var pageText string

//go:embed docs.css
var style []byte

// Style is the page's style sheet, which it expects at /docs/style.css.
func Style() []byte { return style }

// Page returns the page about an OpenAPI document in YAML.
func Page(yamlText []byte) ([]byte, error) {
	var root object
	if err := yaml.UnmarshalWithOptions(yamlText, &root, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("read the openapi document: %w", err)
	}
	d := &document{root: root}
	page, err := template.New("docs").Funcs(template.FuncMap{"prose": prose, "pixels": pixels}).Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("read the page of the docs: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, d.content()); err != nil {
		return nil, fmt.Errorf("write the docs: %w", err)
	}
	return out.Bytes(), nil
}

// content is the page as the template takes it, in the order of the document.
type content struct {
	Title, Summary, Description string
	Groups                      []*group
}

// group is the operations of one tag.
type group struct {
	Name, Description string
	Operations        []operation
}

// operation is one endpoint, or one message that Outlay sends.
type operation struct {
	ID, Method, Path, Summary, Description, Credential string
	// Parameters are of the path, the query string and the header.
	Parameters []parameter
	// Body is the fields of a JSON request.
	Body []property
	// Examples are bodies, indented.
	Examples  []string
	Responses []response
	// Sent is true for what Outlay sends itself.
	Sent bool
}

// parameter is one parameter. Type is in words, with its bounds.
type parameter struct {
	Name, In, Type, Description string
	Required                    bool
}

// response is what an operation answers with one status. Body is shown for success only: all problems look alike.
type response struct {
	Status, Description, Media string
	Body                       []property
}

// content collects the operations by their first tag. A tag without a group in the document is a mistake that the
// tests find.
func (d *document) content() content {
	info := field(d.root, "info")
	c := content{Title: text(info, "title"), Summary: text(info, "summary"), Description: text(info, "description")}
	groups := map[string]*group{}
	for _, tag := range items(d.root, "tags") {
		g := &group{Name: text(tag, "name"), Description: text(tag, "description")}
		groups[g.Name] = g
		c.Groups = append(c.Groups, g)
	}
	for _, section := range []string{"paths", "webhooks"} {
		paths, _ := field(d.root, section).(object)
		for _, path := range paths {
			methods, _ := path.Value.(object)
			for _, method := range methods {
				name := fmt.Sprint(items(method.Value, "tags")[0])
				o := d.operation(fmt.Sprint(method.Key), fmt.Sprint(path.Key), method.Value)
				o.Sent = section == "webhooks"
				groups[name].Operations = append(groups[name].Operations, o)
			}
		}
	}
	return c
}

// operation reads one operation. What is left out of the document stays empty.
func (d *document) operation(method, path string, v any) operation {
	o := operation{
		ID: text(v, "operationId"), Method: strings.ToUpper(method), Path: path,
		Summary: text(v, "summary"), Description: text(v, "description"), Credential: credential(v),
	}
	for _, p := range items(v, "parameters") {
		p = d.resolve(p)
		required, _ := field(p, "required").(bool)
		o.Parameters = append(o.Parameters, parameter{
			Name: text(p, "name"), In: text(p, "in"), Type: d.typeOf(field(p, "schema")),
			Description: text(p, "description"), Required: required,
		})
	}
	if media := field(field(d.resolve(field(v, "requestBody")), "content"), "application/json"); media != nil {
		o.Body = d.properties(field(media, "schema"), 0)
		o.Examples = examples(media)
	}
	responses, _ := field(v, "responses").(object)
	for _, r := range responses {
		o.Responses = append(o.Responses, d.response(fmt.Sprint(r.Key), r.Value))
	}
	return o
}

// credential says what the operation wants in the Authorization header.
func credential(v any) string {
	for _, option := range items(v, "security") {
		for _, name := range []string{"apiKey", "token"} {
			if field(option, name) != nil {
				return map[string]string{"apiKey": "API key", "token": "token"}[name]
			}
		}
	}
	return ""
}

// response reads one response. Of several media types the first one's fields are shown.
func (d *document) response(status string, v any) response {
	v = d.resolve(v)
	r := response{Status: status, Description: text(v, "description")}
	media, _ := field(v, "content").(object)
	var kinds []string
	for i, m := range media {
		kinds = append(kinds, fmt.Sprint(m.Key))
		if i == 0 && strings.HasPrefix(status, "2") {
			r.Body = d.properties(field(m.Value, "schema"), 0)
		}
	}
	r.Media = strings.Join(kinds, " or ")
	return r
}

// examples returns the example bodies of a request as JSON.
func examples(media any) (list []string) {
	if one := field(media, "example"); one != nil {
		list = append(list, indented(one))
	}
	named, _ := field(media, "examples").(object)
	for _, example := range named {
		list = append(list, indented(field(example.Value, "value")))
	}
	return list
}

// indented writes a value as JSON, with its fields in the order of the document.
func indented(v any) string {
	text, err := yaml.MarshalWithOptions(v, yaml.JSON())
	if err != nil {
		return ""
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(text), "", "  "); err != nil {
		return string(text)
	}
	return out.String()
}
