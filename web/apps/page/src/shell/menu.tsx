/** A button with a list: things to do, or things to choose from. Arrow keys, Home, End, letters, Escape. */

import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { WithCode } from "../text/with-code.js";
import { Icon, type IconName } from "./icons.js";

export type MenuItem = {
  id: string;
  name: string;
  description?: string;
  icon?: IconName;
  href?: string;
  disabled?: boolean;
  group?: string;
};

type Props = {
  label: string;
  /** What the button shows. */
  children: ReactNode;
  items: readonly MenuItem[];
  onChoose: (id: string) => void;
  /** Given: a choice among options, one of each group when there are several. Absent: a menu of actions. */
  value?: string | readonly string[];
  align?: "start" | "end";
  side?: "top" | "bottom";
  className?: string;
  title?: string;
  /** What the list is about, at its top. */
  heading?: string;
  note?: string;
  disabled?: boolean;
};

export function Menu({
  label,
  children,
  items,
  onChoose,
  value,
  align = "start",
  side = "bottom",
  className = "",
  title,
  heading,
  note,
  disabled = false,
}: Props) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const listId = useId();
  const choosing = value !== undefined;
  const several = Array.isArray(value);
  const chosen = (id: string) => (several ? (value as readonly string[]).includes(id) : id === value);

  useEffect(() => {
    if (!open) return;
    const find = (selector: string) => root.current?.querySelector<HTMLElement>(selector);
    (find('[aria-selected="true"]') ?? find("[data-item]"))?.focus();
    const outside = (event: PointerEvent) => !root.current?.contains(event.target as Node) && setOpen(false);
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const choose = (item: MenuItem) => {
    if (item.disabled) return;
    close();
    onChoose(item.id);
  };
  const move = (event: KeyboardEvent) => {
    const found = [...(root.current?.querySelectorAll<HTMLElement>("[data-item]") ?? [])];
    const at = found.indexOf(document.activeElement as HTMLElement);
    const to = destination(event.key, at, found);
    if (to) {
      event.preventDefault();
      to.focus();
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
    } else if (event.key === "Tab") setOpen(false);
  };

  return (
    <div className={`menu ${className}`} ref={root}>
      <button
        ref={button}
        type="button"
        className="menu-button"
        aria-haspopup={choosing ? "listbox" : "menu"}
        aria-expanded={open}
        aria-controls={open ? listId : undefined}
        aria-label={label}
        title={title}
        disabled={disabled}
        onClick={() => setOpen(!open)}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            setOpen(true);
          }
        }}
      >
        {children}
      </button>
      {open && (
        <div
          id={listId}
          className="menu-list"
          role={choosing ? "listbox" : "menu"}
          aria-label={label}
          aria-multiselectable={several || undefined}
          data-align={align}
          data-side={side}
          onKeyDown={move}
        >
          {heading && (
            <div className="menu-heading" role="presentation">
              <strong>{heading}</strong>
              {note && <span>{note}</span>}
            </div>
          )}
          {items.map((item, index) => (
            <Item
              key={item.id}
              item={item}
              first={item.group !== items[index - 1]?.group}
              {...(choosing && { chosen: chosen(item.id) })}
              onChoose={() => choose(item)}
            />
          ))}
        </div>
      )}
    </div>
  );
}

function Item({
  item,
  first,
  chosen,
  onChoose,
}: {
  item: MenuItem;
  first: boolean;
  chosen?: boolean;
  onChoose: () => void;
}) {
  const words = (
    <>
      {item.icon && <Icon name={item.icon} />}
      <span className="menu-words">
        <span className="menu-name">{item.name}</span>
        {item.description && (
          <span className="menu-description">
            <WithCode text={item.description} />
          </span>
        )}
      </span>
      {chosen && <Icon name="check" size={14} />}
    </>
  );
  const common = { className: "menu-item", "data-item": "", tabIndex: -1 };
  return (
    <>
      {first && item.group && (
        <div className="menu-group" role="presentation">
          {item.group}
        </div>
      )}
      {item.href ? (
        <a {...common} role="menuitem" href={item.href} download onClick={onChoose}>
          {words}
        </a>
      ) : (
        <button
          type="button"
          {...common}
          role={chosen === undefined ? "menuitem" : "option"}
          aria-selected={chosen}
          aria-disabled={item.disabled || undefined}
          onClick={onChoose}
        >
          {words}
        </button>
      )}
    </>
  );
}

function destination(key: string, at: number, items: readonly HTMLElement[]): HTMLElement | undefined {
  if (key === "ArrowDown") return items[(at + 1) % items.length];
  if (key === "ArrowUp") return items[(at - 1 + items.length) % items.length];
  if (key === "Home") return items[0];
  if (key === "End") return items.at(-1);
  if (/^[\p{L}\p{N}]$/u.test(key)) {
    const rest = [...items.slice(at + 1), ...items.slice(0, at + 1)];
    return rest.find((item) => item.textContent?.trim().toLowerCase().startsWith(key.toLowerCase()));
  }
  return undefined;
}
