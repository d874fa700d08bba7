/**
 * Pictures on their way into a prompt: uploaded at once, so that sending is instant.
 *
 * Like the text they belong to, they are kept per thread until they are sent.
 */

import type { Attachment, AttachmentInput } from "@hames/client";
import { useCallback, useEffect, useRef, useState } from "react";
import { api } from "../api.js";
import { serverUrl } from "../base.js";
import { remember, remembered } from "../shell/storage.js";
import { toast } from "../shell/toasts.js";
import { sentence } from "../text/format.js";

const TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const LARGEST = 10 * 1024 * 1024;

export type Picture = { key: number; name: string; preview: string; uploadId: string | null };

export type Pictures = {
  pictures: readonly Picture[];
  /** Whether any of the files is a picture that can be sent. What is not is said in words. */
  add: (files: Iterable<File>) => boolean;
  /** Pictures of a prompt that was sent or queued before. */
  restore: (attachments: readonly Attachment[]) => void;
  /** Pictures that were uploaded already, by id. */
  keep: (ids: readonly string[]) => void;
  remove: (key: number) => void;
  /** What a submit carries. Empties the list. */
  take: () => AttachmentInput[];
  uploading: boolean;
};

let counter = 0;

export function usePictures(threadId: string): Pictures {
  const storageKey = `pictures.${threadId}`;
  const [pictures, setPictures] = useState<readonly Picture[]>(() => stored(storageKey));
  const current = useRef(pictures);
  current.current = pictures;

  useEffect(() => {
    const ready = pictures.flatMap(({ name, uploadId }) => (uploadId ? [{ name, uploadId }] : []));
    remember(storageKey, ready.length > 0 ? JSON.stringify(ready) : "");
  }, [pictures, storageKey]);
  useEffect(() => () => current.current.forEach(release), []);

  const remove = useCallback((key: number) => {
    setPictures((all) =>
      all.filter((picture) => {
        if (picture.key === key) release(picture);
        return picture.key !== key;
      }),
    );
  }, []);

  const upload = useCallback(
    (name: string, preview: string, content: () => Promise<Blob>) => {
      const key = ++counter;
      setPictures((all) => [...all, { key, name, preview, uploadId: null }]);
      content()
        .then((image) => api.upload(image, name))
        .then(
          ({ id }) =>
            setPictures((all) => all.map((picture) => (picture.key === key ? { ...picture, uploadId: id } : picture))),
          (failure: unknown) => {
            const why = failure instanceof Error ? failure.message : String(failure);
            toast(`${name} was not attached. ${sentence(why)}`);
            remove(key);
          },
        );
    },
    [remove],
  );

  const add = useCallback(
    (files: Iterable<File>): boolean => {
      let some = false;
      for (const file of files) {
        const name = file.name || "The file";
        if (!TYPES.has(file.type))
          toast(
            `${name} was not attached: only PNG, JPEG, GIF and WebP pictures can be sent. ` +
              "To show the agent another file, put it into the workspace and type @ and its name.",
          );
        else if (file.size > LARGEST) toast(`${name} was not attached: it is larger than 10 MB.`);
        else {
          some = true;
          upload(file.name, URL.createObjectURL(file), () => Promise.resolve(file));
        }
      }
      return some;
    },
    [upload],
  );

  const keep = useCallback((ids: readonly string[]) => {
    const kept = ids.map((id) => ({ key: ++counter, name: "picture", preview: uploadUrl(id), uploadId: id }));
    setPictures((all) => [...all, ...kept]);
  }, []);

  const restore = useCallback(
    (attachments: readonly Attachment[]) => {
      for (const { kind, name, url = "", upload: id = "" } of attachments) {
        if (kind !== "image") continue;
        if (url === "") toast(`${name} could not be attached again.`);
        // Still an upload: no turn has read it. Otherwise the thread has its own copy, which lasts longer than uploads do.
        else if (id && url === uploadUrl(id))
          setPictures((all) => [...all, { key: ++counter, name, preview: url, uploadId: id }]);
        else upload(name, url, () => fetched(url));
      }
    },
    [upload],
  );

  const take = useCallback((): AttachmentInput[] => {
    const ready = current.current.flatMap(({ uploadId }) =>
      uploadId ? [{ type: "image" as const, id: uploadId }] : [],
    );
    current.current.forEach(release);
    setPictures([]);
    return ready;
  }, []);

  const uploading = pictures.some(({ uploadId }) => uploadId === null);
  return { pictures, add, restore, keep, remove, take, uploading };
}

/** What an earlier prompt carried, to be sent once more. Rejects when a picture is no longer to be had. */
export async function attachedAgain(attachments: readonly Attachment[]): Promise<AttachmentInput[]> {
  return Promise.all(
    attachments.map(async ({ kind, name, url = "" }): Promise<AttachmentInput> => {
      if (kind === "file") return { type: "file", path: name };
      if (url === "") throw new Error(`${name} could not be attached again`);
      return { type: "image", id: (await api.upload(await fetched(url), name)).id };
    }),
  );
}

/** What a queued prompt carries, as it was given. */
export function attachedStill(attachments: readonly Attachment[]): AttachmentInput[] {
  return attachments.flatMap(({ kind, name, upload = "" }): AttachmentInput[] =>
    kind === "file" ? [{ type: "file", path: name }] : upload ? [{ type: "image", id: upload }] : [],
  );
}

async function fetched(url: string): Promise<Blob> {
  const response = await fetch(url, { credentials: "same-origin" });
  if (!response.ok) throw new Error("the picture is not there any more");
  return response.blob();
}

function uploadUrl(id: string): string {
  return serverUrl(`/uploads/${id}`);
}

function release({ preview }: Picture): void {
  if (preview.startsWith("blob:")) URL.revokeObjectURL(preview);
}

function stored(key: string): readonly Picture[] {
  try {
    const kept: unknown = JSON.parse(remembered(key) ?? "[]");
    if (!Array.isArray(kept)) return [];
    return (kept as { name?: unknown; uploadId?: unknown }[]).flatMap(({ name, uploadId }) =>
      typeof name === "string" && typeof uploadId === "string"
        ? [{ key: ++counter, name, preview: uploadUrl(uploadId), uploadId }]
        : [],
    );
  } catch {
    return [];
  }
}
