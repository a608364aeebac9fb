package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type object = yaml.MapSlice

// frame is the part of an OpenAPI document that the schema does not have.
type frame struct {
	// Prefix of the paths of the methods.
	Prefix string
	// Document is the beginning of the document.
	Document object
	// Statuses are the answers of any method but 200.
	Statuses []httpStatus
	// Errors are the codes of commands that fail.
	Errors []commandError
	// Methods has the facts about each method, by its name in JSON.
	Methods map[string]method
}

type httpStatus struct {
	Status      int
	Name        string // of the component
	Description string
	// Text tells that every method may answer with this status, with a text instead of JSON.
	Text bool
	// Errors tells that every method whose response has an error may answer with this status and that error.
	Errors bool
}

type commandError struct {
	Code    int
	Message string
	// Status is the HTTP status of this error in the transport mode of errors.
	Status int
}

type method struct {
	Tag      string
	Errors   []int
	Examples []example
}

type example struct {
	Name, Summary string
	Request       object
	Result        object // of a method whose response is not wrapped, the response
	Error         int    // code, instead of a result
}

type openAPI struct {
	*schema
	frame
}

func generateOpenAPI(s *schema, path string) (map[string][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	o := openAPI{schema: s}
	if err := yaml.UnmarshalStrict(text, &o.frame); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var paths object
	for _, r := range s.rpcs {
		paths = append(paths, item(o.Prefix+"/"+snakeCase(r.name), object{item("post", o.operation(r))}))
	}
	add(&o.Document, "paths", paths)
	components, _ := member(o.Document, "components").(object)
	add(&components, "responses", o.responses())
	add(&components, "schemas", o.schemas())
	set(&o.Document, "components", components)
	var out bytes.Buffer
	if err := writeJSON(&out, o.Document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, out.Bytes(), "", " "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return map[string][]byte{"openapi.json": indented.Bytes()}, nil
}

func (o *openAPI) check() error {
	known := make(map[string]bool)
	for _, r := range o.rpcs {
		name := snakeCase(r.name)
		known[name] = true
		m, ok := o.Methods[name]
		switch {
		case !ok:
			return fmt.Errorf("methods: %s is missing", name)
		case m.Tag == "" || len(m.Examples) == 0:
			return fmt.Errorf("methods.%s: tag and examples are required", name)
		case r.comment == "":
			return fmt.Errorf("the schema has no comment on %s", r.name)
		}
		for _, e := range m.Examples {
			if e.Name == "" || e.Summary == "" || e.Error != 0 && (e.Result != nil || !r.wrapped) {
				return fmt.Errorf("methods.%s: an example has a name, a summary and a result or an error: %v", name, e)
			}
			if e.Error != 0 && !slices.Contains(m.Errors, e.Error) {
				return fmt.Errorf("methods.%s: example %s: %d is not among the errors", name, e.Name, e.Error)
			}
		}
		for _, code := range m.Errors {
			if o.commandError(code) == nil {
				return fmt.Errorf("methods.%s: %d is not among the errors", name, code)
			}
		}
	}
	for name := range o.Methods {
		if !known[name] {
			return fmt.Errorf("methods: the schema has no %s", name)
		}
	}
	return nil
}

func (o *openAPI) commandError(code int) *commandError {
	for i := range o.Errors {
		if o.Errors[i].Code == code {
			return &o.Errors[i]
		}
	}
	return nil
}

func (e *commandError) value() object {
	return object{item("code", e.Code), item("message", e.Message)}
}

func (o *openAPI) operation(r rpc) object {
	m := o.Methods[snakeCase(r.name)]
	summary, description, _ := strings.Cut(r.comment, ". ")
	op := object{
		item("operationId", snakeCase(r.name)), item("tags", []any{m.Tag}),
		item("summary", strings.TrimSuffix(summary, ".")),
	}
	if description != "" {
		op = append(op, item("description", description))
	}
	if r.wrapped {
		op = append(op, item("parameters", []any{reference("parameters", "ErrorMode")}))
	}
	var requests, answers object
	for _, e := range m.Examples {
		requests = append(requests, item(e.Name, object{item("summary", e.Summary), item("value", nonNil(e.Request))}))
		answer := nonNil(e.Result)
		if e.Error != 0 {
			answer = object{item("error", o.commandError(e.Error).value())}
		} else if r.wrapped {
			answer = object{item("result", answer)}
		}
		answers = append(answers, item(e.Name, object{item("summary", e.Summary), item("value", answer)}))
	}
	description = "The result, or an error."
	if !r.wrapped {
		description = "The replies."
	}
	responses := object{item("200", object{
		item("description", description),
		item("content", jsonContent(reference("schemas", r.response()), answers)),
	})}
	for _, s := range o.Statuses {
		if response := o.failure(r, m, s); response != nil {
			responses = append(responses, item(strconv.Itoa(s.Status), response))
		}
	}
	return append(op,
		item("requestBody", object{item("required", true), item("content", jsonContent(reference("schemas", r.request), requests))}),
		item("responses", responses))
}

func (r rpc) response() string {
	if r.wrapped {
		return r.name + "Response"
	}
	return r.result
}

// failure returns nil if the method never answers with the status.
func (o *openAPI) failure(r rpc, m method, s httpStatus) object {
	var examples object
	answers := s.Text || s.Errors && r.wrapped
	for _, e := range o.Errors {
		if e.Status != s.Status || !slices.Contains(m.Errors, e.Code) {
			continue
		}
		answers = true
		for _, x := range m.Examples {
			if x.Error == e.Code {
				examples = append(examples, item(x.Name, object{item("summary", x.Summary), item("value", e.value())}))
			}
		}
	}
	switch {
	case !answers:
		return nil
	case examples == nil:
		return reference("responses", s.Name)
	}
	return s.response(examples)
}

func (s httpStatus) response(examples object) object {
	var content object
	if s.Text {
		content = object{item("text/plain", object{item("schema", object{item("type", "string")})})}
	}
	if !s.Text || s.Errors {
		content = append(content, jsonContent(reference("schemas", "Error"), examples)...)
	}
	response := object{item("description", strings.TrimSpace(s.Description))}
	if content != nil {
		response = append(response, item("content", content))
	}
	return response
}

func (o *openAPI) responses() (all object) {
	for _, s := range o.Statuses {
		all = append(all, item(s.Name, s.response(nil)))
	}
	return all
}

func (o *openAPI) schemas() (all object) {
	responses := make(map[string]bool)
	for _, r := range o.rpcs {
		if !r.wrapped {
			continue
		}
		responses[r.response()] = true
		all = append(all, item(r.response(), object{
			item("type", "object"),
			item("properties", object{item("error", reference("schemas", "Error")), item("result", reference("schemas", r.result))}),
			// Generators of clients understand this form of "one of both"; of a oneOf they make no class.
			item("minProperties", 1), item("maxProperties", 1),
		}))
	}
	for _, m := range o.messages {
		if !responses[m.name] {
			all = append(all, item(m.name, m.openAPI()))
		}
	}
	return all
}

func (m *message) openAPI() object {
	s := object{item("type", "object")}
	if m.comment != "" {
		s = append(s, item("description", strings.Join(strings.Fields(m.comment), " ")))
	}
	var required []any
	var properties object
	for _, f := range m.fields {
		if f.noJSON {
			continue
		}
		if f.always || f.required {
			required = append(required, f.name)
		}
		properties = append(properties, item(f.name, f.openAPI()))
	}
	if properties != nil {
		s = append(s, item("properties", properties))
	}
	if required != nil {
		s = append(s, item("required", required))
	}
	if m.union != "" {
		s = append(s, item("minProperties", 1))
	}
	return s
}

func (f *field) openAPI() (s object) {
	switch f.kind {
	case protoreflect.MessageKind:
		s = reference("schemas", f.message)
	case protoreflect.BoolKind:
		s = object{item("type", "boolean")}
	case protoreflect.StringKind:
		s = object{item("type", "string")}
		if strings.HasPrefix(f.name, "b64") {
			s = append(s, item("contentEncoding", "base64"))
		}
	case protoreflect.BytesKind: // raw, so any JSON
	case protoreflect.DoubleKind:
		s = object{item("type", "number"), item("format", "double")}
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		s = object{item("type", "integer"), item("format", f.kind.String()), item("minimum", 0)}
	default:
		s = object{item("type", "integer"), item("format", strings.TrimPrefix(f.kind.String(), "s"))}
	}
	switch f.shape {
	case repeated:
		s = object{item("type", "array"), item("items", s)}
	case mapped:
		s = object{item("type", "object"), item("additionalProperties", s)}
	}
	if f.comment != "" {
		s = append(s, item("description", f.comment))
	}
	return s
}

func item(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

func reference(kind, name string) object { return object{item("$ref", "#/components/"+kind+"/"+name)} }

func jsonContent(schema, examples object) object {
	media := object{item("schema", schema)}
	if examples != nil {
		media = append(media, item("examples", examples))
	}
	return object{item("application/json", media)}
}

func nonNil(o object) object {
	if o == nil {
		return object{}
	}
	return o
}

func member(o object, key string) any {
	for _, m := range o {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

func set(o *object, key string, value any) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, item(key, value))
}

// add puts members before the present members of the object under key.
func add(o *object, key string, members object) {
	present, _ := member(*o, key).(object)
	set(o, key, append(members, present...))
}

func writeJSON(out *bytes.Buffer, value any) error {
	switch v := value.(type) {
	case object:
		out.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, fmt.Sprint(m.Key)); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := writeJSON(out, m.Value); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, element); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	default:
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	return nil
}
